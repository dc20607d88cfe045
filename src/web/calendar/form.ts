// Creating and changing events.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, listAll, post } from "../core/api.ts";
import { localInputOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { Member, Room } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { canWrite, roomList, roomName } from "../room/rooms.ts";
import { useBusy } from "./busy.ts";
import { dateText, type EventDetail, eventPath } from "./events.ts";

const HOUR_MS = 3_600_000;
const REPEATS: readonly (readonly [rule: string, label: string])[] = [
  ["", "does not repeat"],
  ["FREQ=DAILY", "every day"],
  ["FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "every working day"],
  ["FREQ=WEEKLY", "every week"],
  ["FREQ=WEEKLY;INTERVAL=2", "every two weeks"],
  ["FREQ=MONTHLY", "every month"],
];
const DURATIONS = [15, 30, 45, 60, 90, 120, 180, 240];

export function openNewEvent(room: Room | undefined, start: Date | undefined, onChange: () => void): void {
  const at = start ?? new Date(Math.ceil(Date.now() / HOUR_MS) * HOUR_MS);
  openDialog(() =>
    html`
      <${DialogForm} title="New event" action="Create" onSubmit=${async (fields: FormData) => {
        await post("v1/collaboration/calendar/events", bodyOf(fields));
        onChange();
      }}>
        <${Fields} start=${at} />
        <${RoomFields} room=${room} />
        <label>Repeat <select name="rrule">${REPEATS.map(([rule, label]) =>
          html`<option key=${rule} value=${rule}>${label}</option>`
        )}</select></label>
        <//>
    `
  );
}

export function openEditEvent(event: EventDetail, occurrence: string | undefined, onChange: () => void): void {
  openDialog(() =>
    html`<${DialogForm} title="Edit event" action="Save" onSubmit=${async (fields: FormData) => {
      const { roomId: _room, attendees: _attendees, rrule: _rule, meeting: _meeting, ...change } = bodyOf(fields);
      const scope = occurrence === undefined ? {} : { scope: "this", occurrence };
      await call("PATCH", eventPath(event.id), { ...change, ...scope, version: event.version });
      onChange();
    }}><${Fields} start=${new Date(event.startAt)} event=${event} />
      ${occurrence === undefined ? null : html`<p class="dim">Only this occurrence is changed.</p>`}<//>`
  );
}

function Fields({ start, event }: { start: Date; event?: EventDetail }): VNode {
  const [isAllDay, setAllDay] = useState(event?.allDay === true);
  const minutes = event === undefined ? 60 : Math.round((Date.parse(event.endAt) - Date.parse(event.startAt)) / 60_000);
  const durations = DURATIONS.includes(minutes) || event?.allDay === true ? DURATIONS : [minutes, ...DURATIONS];
  return html`
    <label>Title <input name="title" required maxlength="255" autofocus defaultValue=${event?.title ?? ""} /></label>
    <label class="check"><input type="checkbox" name="isAllDay" checked=${isAllDay} onChange=${() =>
      setAllDay(!isAllDay)} /> All day</label>
    ${isAllDay
      ? html`<label>Day <input type="date" name="date" required defaultValue=${
        event !== undefined && "date" in event.start ? event.start.date : dateText(start)
      } /></label>`
      : html`<div class="pair"><label>Start <input type="datetime-local" name="start" required defaultValue=${
        localInputOf(start)
      } /></label>
        <label class="short">Minutes <select name="minutes">${
        durations.map((one) => html`<option key=${one} selected=${one === minutes}>${one}</option>`)
      }</select></label></div>`}
    <label>Place <input name="location" maxlength="500" defaultValue=${event?.location ?? ""} /></label>
    <label>Description <textarea name="description" rows="2" maxlength="4000" defaultValue=${event?.description ??
      ""}></textarea></label>
  `;
}

/** The room of a new event, and whom of its members to invite. */
function RoomFields({ room }: { room: Room | undefined }): VNode {
  const [roomId, setRoomId] = useState(room?.id ?? "");
  const [members, setMembers] = useState<readonly Member[]>([]);
  useEffect(() => {
    setMembers([]);
    if (roomId !== "") void attempt(async () => setMembers(await listAll<Member>(`v1/rooms/${roomId}/members`)));
  }, [roomId]);
  // Services, such as hooks and plugins, attend nothing.
  const others = members.filter(({ principalId, kind }) => principalId !== myId() && kind !== "service").slice(0, 50);
  const field = useRef<HTMLLabelElement>(null);
  const busy = useBusy(field, others.map(({ principalId }) => principalId));
  return html`
    <label ref=${field}>Room <select name="roomId" value=${roomId} onChange=${(event: Event) =>
      setRoomId((event.target as HTMLSelectElement).value)}>
      <option value="">none, only for me and those I invite</option>
      ${roomList.value.filter(canWrite).map((one) =>
        html`<option key=${one.id} value=${one.id}>${roomName(one)}</option>`
      )}</select></label>
    ${others.length === 0 ? null : html`<fieldset class="choices"><legend class="dim">Invite</legend>
      ${
      others.map(({ principalId, displayName }) =>
        html`
          <label class="check"
            key=${principalId}><input type="checkbox" name="attendee" value=${principalId} /> <span dir="auto">${displayName}</span>
            ${busy.has(principalId) ? html`<span class="tag">busy</span>` : null}</label>
        `
      )
    }</fieldset>`}
    ${roomId === "" ? null : html`<label class="check"><input type="checkbox" name="hasMeeting" /> With a call</label>`}
  `;
}

function bodyOf(fields: FormData): Record<string, unknown> {
  const text = (name: string): string => String(fields.get(name) ?? "").trim();
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const optional = (name: string): string | null => text(name) === "" ? null : text(name);
  return {
    title: text("title"),
    location: optional("location"),
    description: optional("description"),
    ...fields.get("isAllDay") === null
      ? { start: { dateTime: `${text("start")}:00`, timeZone }, durationMinutes: Number(text("minutes")) }
      : { start: { date: text("date") } },
    ...text("roomId") === "" ? {} : { roomId: text("roomId") },
    ...text("rrule") === "" ? {} : { rrule: text("rrule") },
    ...fields.getAll("attendee").length === 0
      ? {}
      : { attendees: fields.getAll("attendee").map((principalId) => ({ principalId })) },
    ...fields.get("hasMeeting") === null ? {} : { meeting: { create: true } },
  };
}
