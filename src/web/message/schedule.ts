// Messages that are sent at a later time.
import type { VNode } from "preact";
import { call, createId, get, post } from "../core/api.ts";
import { fullTimeOf, HOUR_MS, localInputOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { notify } from "../core/notice.ts";
import type { Page, Room, ScheduledMessage } from "../core/resources.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import type { Taken } from "./editing.ts";

/** Asks for a time; `take` returns what is to be sent and empties the composer. */
export function openSchedule(room: Room, take: () => Taken | undefined): void {
  const initial = localInputOf(new Date(Date.now() + HOUR_MS));
  openDialog(() =>
    html`
      <${DialogForm} title="Send later" action="Schedule"
        onSubmit=${async (fields: FormData) => {
          const sendAt = new Date(String(fields.get("at"))).toISOString();
          if (Date.parse(sendAt) <= Date.now()) throw new Error("Choose a time in the future");
          const taken = take();
          if (taken === undefined) throw new Error("Write the message first");
          const { files, giveBack, ...content } = taken;
          const fileIds = files.map(({ id }) => id);
          const body = { roomId: room.id, ...content, sendAt, parseMentions: true, clientMessageId: createId() };
          try {
            await post("v1/messages", fileIds.length === 0 ? body : { ...body, fileIds });
          } catch (error) {
            giveBack();
            throw error;
          }
          notify(`Scheduled for ${fullTimeOf(sendAt)}`);
        }}><label>Time <input type="datetime-local" name="at" required value=${initial} /></label><//>
    `
  );
}

export function openScheduledList(roomId: string): void {
  openDialog(() => html`<${ScheduledList} roomId=${roomId} />`);
}

function ScheduledList({ roomId }: { roomId: string }): VNode {
  const load = async (): Promise<ScheduledMessage[]> =>
    (await get<Page<ScheduledMessage>>("v1/messages/scheduled", { roomId })).items;
  const { items, read } = useList(load, [roomId]);
  const cancel = ({ id, message }: ScheduledMessage): void =>
    confirmThen("Cancel this message?", message.text, "Cancel the message", async () => {
      await call("DELETE", `v1/messages/scheduled/${id}`);
      openScheduledList(roomId);
    });
  return html`
    <div>
      <${Heading} title="Scheduled messages" onClose=${closeDialog} />
      <${Placeholder} items=${items} read=${read} text="None are scheduled here." />
      <ul class="rows">${(items ?? []).map((one) => {
        const { id, sendAt, state, failure, message } = one;
        return html`
          <li
            key=${id}><div><p dir="auto">${message.text}</p><small class="dim">${state === "failed"
              ? `Not sent: ${failure?.detail}`
              : fullTimeOf(sendAt)}</small></div><button type="button" onClick=${() => cancel(one)}>Cancel</button></li>
        `;
      })}</ul>
    </div>
  `;
}
