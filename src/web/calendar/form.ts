// Creating and changing events.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { call, post } from "../core/api.ts";
import { dateText, HOUR_MS, localInputOf, MINUTE_MS } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf, readMembers } from "../core/people.ts";
import type { Room } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { usePrincipals } from "../room/create.ts";
import { canWrite, roomList, roomName } from "../room/rooms.ts";
import { useBusy } from "./busy.ts";
import { addDays, type Entry, type EventDetail, eventPath } from "./events.ts";
import { ReminderField, type Reminders, remindersOf } from "./reminder.ts";
import { REPEATS, ruleInWords } from "./rule.ts";

type Details = Pick<EventDetail, "title" | "location" | "description"> & { rrule?: string | null };

type Attendees = EventDetail["attendees"];
type Invitee = { id: string; displayName: string };

/** Of a new event, unless it is for whole days. */
const DEFAULT_REMINDERS: Reminders = [{ minutesBefore: 10 }];
/** Browsers offer years of six digits otherwise. */
const LATEST = "9999-12-31T23:59";
/** More are found by name. */
const SHOWN_MAX = 30;
/** One of the offered rules, which may end with a day in the time zone of the event. */
const ENDING_RULE = /^(.*?)(?:;UNTIL=(\d{4})(\d\d)(\d\d)T235959)?$/;

/** Asks for an event; `onCreated` receives the day on which it begins. */
export function openNewEvent(room: Room | undefined, start: Date | undefined, onCreated: (day: Date) => void): void {
  const at = start ?? new Date(Math.ceil(Date.now() / HOUR_MS) * HOUR_MS);
  openDialog(() =>
    html`
      <${DialogForm} title="New event" action="Create" onSubmit=${async (fields: FormData) => {
        const { start, startAt } = await post<Entry>("v1/collaboration/calendar/events", {
          ...detailsOf(fields),
          ...timeOf(fields),
          ...attendeesOf(fields),
          ...remindersOf(fields, true),
          ...fields.get("roomId") === "" ? {} : { roomId: fields.get("roomId") },
          ...fields.has("hasMeeting") ? { meeting: { create: true } } : {},
        });
        onCreated(new Date("date" in start ? `${start.date}T12:00:00` : startAt));
      }}>
        <${Fields} start=${at} />
        <${RoomFields} room=${room} />
        <${Repeat} />
        <//>
    `
  );
}

export function openEditEvent(event: EventDetail, occurrence: string | undefined, onChange: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Edit event" action="Save" onSubmit=${async (fields: FormData) => {
        const details = Object.entries(detailsOf(fields)).filter(([name, value]) =>
          value !== event[name as keyof Details]
        );
        const change = {
          ...Object.fromEntries(details),
          ...timeOf(fields, event),
          ...attendeesOf(fields, event),
          ...remindersOf(fields, false),
        };
        if (Object.keys(change).length === 0) return;
        const scope = occurrence === undefined ? {} : { scope: fields.get("scope"), occurrence };
        await call("PATCH", eventPath(event.id), { ...change, ...scope, version: event.version });
        onChange();
      }}>
        <${Fields} start=${new Date(event.startAt)} event=${event} />
        <${SeriesFields} event=${event} isOccurrence=${occurrence !== undefined} />
        <//>
    `
  );
}

/** Moves an event, or of a series one occurrence. It stays as long as it is. */
export async function moveEvent(entry: Entry, start: Date): Promise<void> {
  const { id, start: before, occurrence, version } = entry;
  if (!("timeZone" in before)) return;
  const { timeZone } = before;
  await call("PATCH", eventPath(id), {
    start: { dateTime: wallTimeOf(start, timeZone), timeZone },
    ...occurrence === null ? {} : { scope: "this", occurrence },
    version,
  });
}

function Fields({ start, event }: { start: Date; event?: EventDetail }): VNode {
  const [isAllDay, setAllDay] = useState(event?.allDay === true);
  return html`
    <label>Title <input name="title" required maxlength="255" autofocus defaultValue=${event?.title ?? ""} /></label>
    <label class="check"><input type="checkbox" name="isAllDay" checked=${isAllDay} onChange=${() =>
      setAllDay(!isAllDay)} /> All day</label>
    ${isAllDay
      ? html`
        <${Days} first=${event !== undefined && "date" in event.start ? event.start.date : dateText(start)}
          last=${event === undefined ? undefined : lastDayOf(event)} />
      `
      : html`<${Times} start=${localInputOf(start)} minutes=${event?.allDay === false ? minutesOf(event) : 60} />`}
    <label>Place <input name="location" maxlength="500" defaultValue=${event?.location ?? ""} /></label>
    <label>Description <textarea name="description" rows="2" maxlength="4000" defaultValue=${event?.description ??
      ""}></textarea></label>
    ${event === undefined
      ? html`<${ReminderField} key=${isAllDay} isAllDay=${isAllDay} reminders=${isAllDay ? [] : DEFAULT_REMINDERS} />`
      : null}
  `;
}

/** The end follows the start: an event stays as long as it is. */
function Times(initial: { start: string; minutes: number }): VNode {
  const [{ start, minutes }, set] = useState(initial);
  return html`
    <div class="pair"><label>Start <input type="datetime-local" name="start" required max=${LATEST} value=${start}
      onInput=${(event: Event) => valueOf(event) === "" || set({ start: valueOf(event), minutes })} /></label>
      <label>End <input type="datetime-local" name="end" required min=${start} max=${LATEST}
        value=${localInputOf(new Date(Date.parse(start) + minutes * MINUTE_MS))} onInput=${(event: Event) =>
          valueOf(event) === "" || set({ start, minutes: minutesBetween(start, valueOf(event)) })} /></label></div>
  `;
}

/** The last day follows the first one, and is never before it. */
function Days({ first: initial, last }: { first: string; last: string | undefined }): VNode {
  const [first, setFirst] = useState(initial);
  const [until, setUntil] = useState(last ?? initial);
  return html`
    <div
      class="pair"><label>First day <input type="date" name="date" required value=${first} onInput=${(event: Event) =>
        setFirst(valueOf(event))} /></label>
      <label>Last day <input type="date" name="lastDate" required min=${first} value=${until < first
        ? first
        : until} onInput=${(event: Event) => setUntil(valueOf(event))} /></label></div>
  `;
}

/** How often an event repeats, and until when; another rule than those offered stays as it is. */
function Repeat({ rule = "" }: { rule?: string }): VNode {
  const [, known = "", ...until] = ENDING_RULE.exec(rule) ?? [];
  const isKnown = REPEATS.some(([one]) => one === known);
  const [chosen, setChosen] = useState(isKnown ? known : rule);
  const hasEnd = chosen !== "" && REPEATS.some(([one]) => one === chosen);
  return html`
    <div class="pair">
      <label>Repeat <select name="rrule" value=${chosen} onChange=${(event: Event) =>
        setChosen(valueOf(event))}>${(isKnown ? REPEATS : [[rule, ruleInWords(rule)], ...REPEATS])
        .map(([one, label]) => html`<option key=${one} value=${one}>${label}</option>`)}</select></label>
      ${hasEnd
        ? html`<label>Until <input type="date" name="until" defaultValue=${until.filter(Boolean).join("-")} /></label>`
        : null}
    </div>
  `;
}

/** Which occurrences of a series are changed; a single one has no rule or attendees of its own. */
function SeriesFields({ event, isOccurrence }: { event: EventDetail; isOccurrence: boolean }): VNode {
  const [scope, setScope] = useState(isOccurrence ? "this" : "all");
  return html`
    ${isOccurrence
      ? html`<label>Change <select name="scope" value=${scope} onChange=${(change: Event) => setScope(valueOf(change))}>
        <option value="this">only this one</option><option value="following">this and the following</option><option value="all">the whole series</option>
      </select></label>`
      : null}
    ${scope === "this" ? null : html`
      <${ReminderField} isAllDay=${event.allDay} reminders=${event.reminders} />
      <${Repeat} rule=${event.rrule ?? ""} />
      <${Invitees} roomId=${event.roomId ?? ""} attendees=${event.attendees} />
    `}
  `;
}

/** The room of a new event, and whom of its members to invite. */
function RoomFields({ room }: { room: Room | undefined }): VNode {
  // Who may not write in the room can have an event of their own.
  const [roomId, setRoomId] = useState(room !== undefined && canWrite(room) ? room.id : "");
  return html`
    <label>Room <select name="roomId" value=${roomId} onChange=${(event: Event) => setRoomId(valueOf(event))}>
      <option value="">none, only for me and those I invite</option>
      ${roomList.value.filter(canWrite).map((one) =>
        html`<option key=${one.id} value=${one.id}>${roomName(one)}</option>`
      )}</select></label>
    <${Invitees} roomId=${roomId} />
    ${roomId === "" ? null : html`<label class="check"><input type="checkbox" name="hasMeeting" /> With a call</label>`}
  `;
}

/** Whom to invite: members of the room, or anybody if there is none. */
function Invitees({ roomId, attendees = [] }: { roomId: string; attendees?: Attendees }): VNode {
  if (roomId !== "") return html`<${Members} key=${roomId} roomId=${roomId} attendees=${attendees} />`;
  return html`<${Anybody} attendees=${attendees} />`;
}

function Members({ roomId, attendees }: { roomId: string; attendees: Attendees }): VNode {
  const [q, setQ] = useState("");
  const { items, read } = useList(() => readMembers(roomId));
  const others = items?.map(({ principalId, ...one }) => ({ ...one, id: principalId })).filter(mayAttend);
  const found = others?.filter(({ displayName }) => displayName.toLowerCase().includes(q.trim().toLowerCase()));
  const text = others?.length === 0 ? "This room has no other members." : "No member has this name.";
  const note = html`<${Placeholder} items=${found} read=${read} text=${text} />`;
  return html`<${Choices} people=${found ?? []} attendees=${attendees} q=${q} onFind=${setQ} note=${note} />`;
}

function Anybody({ attendees }: { attendees: Attendees }): VNode {
  const [q, setQ, people, note] = usePrincipals();
  const active = people.filter((one) => !one.disabled && mayAttend(one));
  return html`<${Choices} people=${active} attendees=${attendees} q=${q} onFind=${setQ} note=${note} />`;
}

/** Some of these people, and who of them is busy: those who attend the event already are so because of it. */
function Choices({ people, attendees, q, onFind, note }: {
  people: readonly Invitee[];
  attendees: Attendees;
  q: string;
  onFind: (q: string) => void;
  note: VNode;
}): VNode {
  /** Those who stay, also where others are searched for. */
  const [kept, setKept] = useState<readonly Invitee[]>(() =>
    attendees.flatMap(({ principalId }) =>
      principalId === null || principalId === myId() ? [] : [{ id: principalId, displayName: nameOf(principalId) }]
    )
  );
  const found = people.slice(0, SHOWN_MAX);
  const shown = [...kept.filter(({ id }) => !found.some((one) => one.id === id)), ...found];
  const attending = new Set(attendees.map(({ principalId }) => principalId));
  const field = useRef<HTMLFieldSetElement>(null);
  const busy = useBusy(field, shown.map(({ id }) => id).filter((id) => !attending.has(id)));
  return html`
    <fieldset ref=${field} class="fields"><legend class="dim">Invite</legend>
      <input type="search" placeholder="Find by name" aria-label="Find people to invite" value=${q}
        onInput=${(event: InputEvent) => onFind(valueOf(event))}
        onKeyDown=${(event: KeyboardEvent) => event.key === "Enter" && event.preventDefault()} />
      <div class="choices">${shown.map((one) =>
        html`
          <label class="check" key=${one.id}><input type="hidden" name="offered" value=${one.id} />
            <input type="checkbox" name="attendee" value=${one.id} defaultChecked=${attending.has(one.id)}
              onChange=${() => setKept((all) => all.some(({ id }) => id === one.id) ? all : [...all, one])} />
            <span dir="auto">${one.displayName}</span>
            ${busy.has(one.id) ? html`<span class="tag">busy</span>` : null}</label>
        `
      )}</div>
      ${note}
    </fieldset>
  `;
}

/** Others, but for services, such as hooks and plugins. */
function mayAttend({ id, kind }: { id: string; kind: string }): boolean {
  return id !== myId() && kind !== "service";
}

function detailsOf(fields: FormData): Details {
  const text = (name: string): string => String(fields.get(name)).trim();
  const optional = (name: string): string | null => text(name) || null;
  return {
    title: text("title"),
    location: optional("location"),
    description: optional("description"),
    ...fields.has("rrule") ? { rrule: optional("rrule") && text("rrule") + endOf(fields) } : {},
  };
}

function endOf(fields: FormData): string {
  const until = fields.get("until") ?? "";
  return until === "" ? "" : `;UNTIL=${String(until).replaceAll("-", "")}T235959`;
}

/** The time of a form; of an event what was changed, in its own zone: where a series stays at its hour when clocks change. */
function timeOf(fields: FormData, event?: EventDetail): Record<string, unknown> {
  const { start: before } = event ?? {};
  if (fields.has("isAllDay")) {
    const [date, last] = [String(fields.get("date")), String(fields.get("lastDate"))];
    const isSame = before !== undefined && "date" in before && before.date === date && lastDayOf(event) === last;
    return isSame ? {} : { start: { date }, end: { date: dayAfter(last, 1) } };
  }
  const start = String(fields.get("start"));
  const durationMinutes = minutesBetween(start, String(fields.get("end")));
  const timeZone = before !== undefined && "timeZone" in before
    ? before.timeZone
    : Intl.DateTimeFormat().resolvedOptions().timeZone;
  const timed = event?.allDay === false ? event : undefined;
  return {
    ...timed !== undefined && localInputOf(new Date(timed.startAt)) === start
      ? {}
      : { start: { dateTime: wallTimeOf(new Date(start), timeZone), timeZone } },
    ...timed !== undefined && minutesOf(timed) === durationMinutes ? {} : { durationMinutes },
  };
}

/** All attendees, if the form changes them; who was not offered in it stays. */
function attendeesOf(fields: FormData, event?: EventDetail): Record<string, unknown> {
  const before = event?.attendees ?? [];
  const wanted = new Set(fields.getAll("attendee"));
  const offered = new Set(fields.getAll("offered"));
  const kept = before.filter(({ principalId }) =>
    principalId === null || wanted.has(principalId) || !offered.has(principalId)
  );
  const added = [...wanted].filter((id) => !before.some(({ principalId }) => principalId === id));
  if (added.length === 0 && kept.length === before.length) return {};
  const attendees = kept.map(({ principalId, email, role }) =>
    principalId === null ? { email, role } : { principalId, role }
  );
  return { attendees: [...attendees, ...added.map((principalId) => ({ principalId }))] };
}

/** The last day of an event of whole days, which ends before its end. */
export function lastDayOf(event: EventDetail | undefined): string | undefined {
  if (event === undefined || !("date" in event.start) || !("date" in event.end)) return undefined;
  return event.end.date > event.start.date ? dayAfter(event.end.date, -1) : event.start.date;
}

function dayAfter(date: string, days: number): string {
  return dateText(addDays(new Date(`${date}T12:00:00`), days));
}

function minutesOf({ startAt, endAt }: EventDetail): number {
  return minutesBetween(startAt, endAt);
}

function minutesBetween(start: string, end: string): number {
  return Math.round((Date.parse(end) - Date.parse(start)) / MINUTE_MS);
}

/** What a field has now. */
function valueOf({ target }: Event): string {
  return (target as HTMLInputElement).value;
}

/** Such as `2026-03-01T09:30:00`, in Swedish as in ISO 8601. */
function wallTimeOf(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(at)
    .replace(" ", "T");
}
