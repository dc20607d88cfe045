// How long the team stores what is deleted by its age.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { notify, useLatest } from "../core/notice.ts";
import { me } from "../core/session.ts";
import { confirmThen } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";

type Days = Record<"messagesDays" | "filesDays" | "runsDays" | "auditDays", number | null>;
type Retention = Days & { maxAuditDays: number; legalHold: boolean };
type Field = { name: keyof Days; label: string; unset: string; min: number; max: number };

const PATH = "v1/collaboration/retention";

export function Retention(): VNode {
  const [retention, setRetention] = useState<Retention>();
  const isOwner = me.value?.roles.includes("owner") === true;
  const read = useLatest(() => get<Retention>(PATH), setRetention);
  useEffect(() => isOwner ? read() : undefined, []);
  if (!isOwner) return html`<p class="empty">Owners of the team set how long it stores what is deleted by its age.</p>`;
  if (retention === undefined) return html`<${Placeholder} read=${read} />`;
  const fields = fieldsOf(retention);
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const days = Object.fromEntries(fields.map(({ name }) => [name, Number(data.get(name)) || null])) as Days;
    confirmThen(
      "Change how long the team stores?",
      `What is older is deleted for good, from about an hour from now on: ${
        fields.map(({ name, label, unset }) => `${label.toLowerCase()}, ${daysText(days[name], unset)}`).join("; ")
      }.`,
      "Change",
      async () => {
        setRetention(await call<Retention>("PUT", PATH, days));
        notify("Saved");
      },
    );
  }
  return html`
    <form class="fields" onSubmit=${submit}>
      <p class="dim">Days, each empty for the longest time. Rooms may store messages for fewer days. What is under a <a
        href="#/admin/holds">legal hold</a> stays until that is released${retention.legalHold
          ? "; there is one on the whole team now"
          : ""}.</p>
      ${fields.map(({ name, label, unset, min, max }) =>
        html`
          <label
            key=${name}>${label} <input type="number" name=${name} min=${min} max=${max} placeholder=${unset}
                    defaultValue=${retention[name] ?? ""} /></label>
        `
      )}
      <footer><button class="primary">Save</button></footer>
    </form>
  `;
}

function fieldsOf({ maxAuditDays }: Retention): Field[] {
  return [
    { name: "messagesDays", label: "Messages", unset: "unlimited", min: 1, max: 36_500 },
    { name: "filesDays", label: "Uploads that nothing shows", unset: "1", min: 1, max: 90 },
    { name: "runsDays", label: "Runs of agents", unset: "90", min: 1, max: 90 },
    {
      name: "auditDays",
      label: "Audit log",
      unset: String(maxAuditDays),
      min: Math.min(90, maxAuditDays),
      max: maxAuditDays,
    },
  ];
}

function daysText(days: number | null, unset: string): string {
  const text = String(days ?? unset);
  return /^\d+$/.test(text) ? `${text} ${text === "1" ? "day" : "days"}` : text;
}
