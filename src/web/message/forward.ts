// Forwarding: a link to the message in another room, with a comment. It gives nobody more to read.
import { addressOf, createId, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { Message } from "../core/resources.ts";
import { go, hrefOf } from "../core/route.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { canWrite, roomList, roomName } from "../room/rooms.ts";

export function openForward({ id, roomId: sourceId }: Message): void {
  const targets = roomList.peek().filter(canWrite)
    .toSorted((one, other) => Number(one.id === sourceId) - Number(other.id === sourceId));
  openDialog(() =>
    html`
      <${DialogForm} title="Forward" action="Forward" onSubmit=${async (fields: FormData) => {
        const roomId = String(fields.get("room"));
        const link = `[Forwarded message](${addressOf(hrefOf(["rooms", sourceId], { message: id }))})`;
        const text = `${fields.get("comment")}\n\n${link}`.trim();
        await post("v1/messages", { roomId, text, parseMentions: true, clientMessageId: createId() });
        go(["rooms", roomId]);
      }}>
        <label>To <select name="room" required autofocus>${targets.map((room) =>
          html`<option key=${room.id} value=${room.id}>${room.kind === "direct" ? "" : "# "}${roomName(room)}</option>`
        )}</select></label>
        <label>Comment <textarea name="comment" rows="3" dir="auto"></textarea></label>
        <p class="dim">Only those who may read the message in its room see it there.</p>
        <//>
    `
  );
}
