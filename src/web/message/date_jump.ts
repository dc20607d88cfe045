// Going to a day of a conversation.
import { get } from "../core/api.ts";
import { localInputOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { go } from "../core/route.ts";
import type { Message, Messages, Room } from "../core/resources.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";

/** After a reply, the next message of the conversation is among so many. */
const BESIDE_MAX = 50;

export function openDateJump(room: Room, day = new Date()): void {
  const dayOf = (date: Date): string => localInputOf(date).slice(0, 10);
  openDialog(() =>
    html`
      <${DialogForm} title="Go to a date" action="Go"
        onSubmit=${async (fields: FormData) => {
          const found = await firstSince(room, Date.parse(`${fields.get("day")}T00:00:00`));
          if (found === undefined) throw new Error("Nothing was written on that day or later");
          go(["rooms", room.id], { message: found.id });
        }}><label>Day <input type="date" name="day" required autofocus max=${dayOf(new Date())} defaultValue=${dayOf(
          day,
        )} /></label><//>
    `
  );
}

/** The first message that is not older: positions are in the order of times, so half of what is left is ruled out each time. */
async function firstSince(room: Room, time: number): Promise<Message | undefined> {
  const after = async (seq: number, limit: number): Promise<Message[]> =>
    (await get<Messages>("v1/messages", { roomId: room.id, after: seq, limit })).items;
  let [low, high] = [0, room.lastSeq];
  let found: Message | undefined;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [next] = await after(middle, 1);
    if (next !== undefined && Date.parse(next.createdAt) < time) low = next.seq;
    else {
      found = next ?? found;
      high = middle;
    }
  }
  if (found === undefined || found.threadId === null) return found;
  const beside = await after(found.seq, BESIDE_MAX);
  return beside.find(({ threadId }) => threadId === null) ?? found;
}
