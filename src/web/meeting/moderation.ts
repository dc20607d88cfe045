// What hosts and moderators do with others in a call: admit, mute and remove them, and pass on the host's role.
import type { VNode } from "preact";
import { call as send } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { confirmThen } from "../part/dialog.ts";
import { Menu, type MenuItem } from "../part/menu.ts";
import type { Call } from "./call.ts";
import { type Participant, PATH } from "./meetings.ts";

/** Those who wait in the lobby. */
export function LobbyBanner({ current }: { current: Call }): VNode | null {
  const waiting = current.participants.value.filter(({ state }) => state === "waiting");
  if (waiting.length === 0) return null;
  return html`
    <div class="banner" role="status">${waiting.map((one) =>
      html`
        <span key=${one.id} class="row"><span><b dir="auto">${one.displayName}</b> waits in the lobby.</span>
          <button type="button" class="primary" aria-label=${`Admit ${one.displayName}`} onClick=${() =>
            void attempt(() => send("PATCH", pathOf(current, one), { admitted: true }))}>Admit</button>
          <button type="button" aria-label=${`Refuse ${one.displayName}`} onClick=${() =>
            void attempt(() => send("DELETE", pathOf(current, one)))}>Refuse</button></span>
      `
    )}</div>
  `;
}

/** What moderators can do about one participant. */
export function ModeratorMenu({ current, participant, isHost }: {
  current: Call;
  participant: Participant;
  isHost: boolean;
}): VNode {
  const { displayName, muted, handRaisedAt } = participant;
  const path = pathOf(current, participant);
  const change = (fields: Record<string, unknown>) => (): void => void attempt(() => send("PATCH", path, fields));
  const items: MenuItem[] = [
    ...muted ? [] : [{ label: "Mute", icon: "mic" as const, onSelect: change({ muted: true }) }],
    ...handRaisedAt === null
      ? []
      : [{ label: "Lower hand", icon: "hand" as const, onSelect: change({ handRaised: false }) }],
    ...isHost ? [{ label: "Make host", icon: "user" as const, onSelect: change({ role: "host" }) }] : [],
    {
      label: "Remove from call",
      icon: "exit",
      isDanger: true,
      onSelect: () =>
        confirmThen(
          `Remove ${displayName}?`,
          "They leave the call, and wait in the lobby if they join again.",
          "Remove",
          () => send("DELETE", path),
        ),
    },
  ];
  return html`<${Menu} label=${`Menu of ${displayName}`} items=${items} className="tile-menu" />`;
}

function pathOf({ meeting: { id } }: Call, participant: Participant): string {
  return `${PATH}/${id}/participants/${participant.id}`;
}
