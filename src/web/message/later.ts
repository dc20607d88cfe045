// What the caller saved: messages with their reminders, until they are done.
import type { VNode } from "preact";
import { call, get } from "../core/api.ts";
import { fullTimeOf, localInputOf, MINUTE_MS, shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, notify } from "../core/notice.ts";
import { addPeople, nameOf } from "../core/people.ts";
import type { Message, Page, Person } from "../core/resources.ts";
import { hrefOf, route } from "../core/route.ts";
import { CardsPage } from "../part/cards_page.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { Icon } from "../part/icon.ts";
import { usePages } from "../part/list.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { markdown, mentionNames } from "./markdown.ts";
import { lineOf } from "./quotes.ts";

type Saved = { messageId: string; state: "open" | "done"; remindAt: string | null; message: Message };
type SavedPage = Page<Saved> & { senders: Person[] };

const MORNING_HOUR = 9;

const pathOf = (id: string): string => `v1/messages/${encodeURIComponent(id)}/saved`;

export async function saveMessage({ id }: Message): Promise<void> {
  await call("PUT", pathOf(id), { state: "open" });
  notify("Saved. It is listed in Later");
}

/** Asks when to be reminded of a message, which is saved then. */
export function openReminder({ id }: Pick<Message, "id">): void {
  const times = timesFrom(new Date());
  const choose = ({ target }: Event): void => {
    const { form, value } = target as HTMLSelectElement;
    const field = form?.elements.namedItem("at") as HTMLInputElement;
    if (value === "") field.focus();
    else field.value = value;
  };
  openDialog(() =>
    html`
      <${DialogForm} title="Reminder" action="Remind me" onSubmit=${async (fields: FormData) => {
        const remindAt = new Date(String(fields.get("at"))).toISOString();
        if (Date.parse(remindAt) <= Date.now()) throw new Error("Choose a time in the future");
        await call("PUT", pathOf(id), { remindAt });
        notify(`You are reminded ${fullTimeOf(remindAt)}`);
      }}>
        <label>When <select autofocus onChange=${choose}>${times.map(([label, at]) =>
          html`<option key=${label} value=${localInputOf(at)}>${label}</option>`
        )}<option value="">At another time</option></select></label>
        <label>Time <input type="datetime-local" name="at" required defaultValue=${localInputOf(
          times[0]?.[1] ?? new Date(),
        )} /></label>
        <//>
    `
  );
}

function timesFrom(now: Date): (readonly [string, Date])[] {
  const after = (minutes: number): Date => new Date(now.getTime() + minutes * MINUTE_MS);
  const morning = (days: number): Date =>
    new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, MORNING_HOUR);
  return [
    ["In 20 minutes", after(20)],
    ["In 1 hour", after(60)],
    ["In 3 hours", after(180)],
    ["Tomorrow morning", morning(1)],
    ["Next Monday", morning((8 - now.getDay()) % 7 || 7)],
  ];
}

export default function LaterPage(): VNode {
  const state = route.value.query.get("state") === "done" ? "done" : "open";
  return html`<${SavedList} key=${state} state=${state} />`;
}

function SavedList({ state }: { state: Saved["state"] }): VNode {
  const { page, read, more } = usePages(async (cursor) => {
    const found = await get<SavedPage>("v1/messages/saved", { state, include: ["senders"], cursor });
    addPeople(found.senders);
    return found;
  });
  useLive(read, ({ type }) => type.startsWith("saved_message.") || /^message\.(?:updated|deleted|expired)$/.test(type));
  return html`
    <${CardsPage} title="Later" label="Saved messages" openTab=${state === "done" ? 1 : 0} tabs=${[
      ["To do", hrefOf(["later"])],
      ["Done", hrefOf(["later"], { state: "done" })],
    ]} items=${page?.items}
      read=${read} more=${more} text=${state === "done"
        ? "Nothing is done yet."
        : "Nothing is saved. Save a message from its menu, or by the key S."}>
      <ul class="cards">${(page?.items ?? []).map((saved) =>
        html`<${Card} key=${saved.messageId} saved=${saved} />`
      )}</ul>
      <//>
  `;
}

function Card({ saved: { state, remindAt, message } }: { saved: Saved }): VNode {
  const { id, roomId, senderId, createdAt, text } = message;
  const room = rooms.value.get(roomId);
  const put = (next: Saved["state"]) => (): void => void attempt(() => call("PUT", pathOf(id), { state: next }));
  return html`
    <li>
      <a
        href=${hrefOf(["rooms", roomId], { message: id })}><small class="dim"><b dir="auto">${nameOf(
          senderId,
        )}</b>${room === undefined
          ? null
          : html`in <b dir="auto">${roomName(room)}</b>`}<time datetime=${createdAt}>${shortTimeOf(
            createdAt,
          )}</time></small></a>
      <div class="text" dir="auto">${text ? markdown(text, mentionNames(message.mentions)) : lineOf(message)}</div>
      <div class="actions">
        ${remindAt === null ? null : html`<small class="dim"><${Icon} name="bell" />${fullTimeOf(remindAt)}</small>`}
        ${state === "done" ? html`<button type="button" onClick=${put("open")}>Not done</button>` : html`
          <button type="button" onClick=${put("done")}>Done</button>
          <button type="button" onClick=${() => openReminder(message)}>${remindAt === null
            ? "Remind me"
            : "Reminder"}</button>
        `}
        <button type="button" onClick=${() => void attempt(() => call("DELETE", pathOf(id)))}>Remove</button>
      </div>
    </li>
  `;
}
