// One event: when, where, who, and the caller's response.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get, withQuery } from "../core/api.ts";
import { dateOf, fullTimeOf, isSameDay, timeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { hour, locale } from "../core/preferences.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { markdown } from "../message/markdown.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, confirmThen, Heading, openDialog } from "../part/dialog.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { type EventDetail, eventPath, mayEdit, type Rsvp } from "./events.ts";
import { lastDayOf, openEditEvent } from "./form.ts";
import { remindersInWords } from "./reminder.ts";
import { ruleInWords } from "./rule.ts";

const RESPONSES: readonly (readonly [Rsvp, string])[] = [["accepted", "Yes"], ["tentative", "Maybe"], [
  "declined",
  "No",
]];
const STATUS_WORDS: Readonly<Record<string, string>> = {
  accepted: "yes",
  tentative: "maybe",
  declined: "no",
  needs_action: "not yet",
};

/** Opens an event, or one occurrence of a series; `onChange` is called after a change. */
export function openEvent(id: string, occurrence: string | undefined, onChange: () => void): void {
  openDialog(() => html`<${Detail} id=${id} occurrence=${occurrence} onChange=${onChange} />`);
}

function Detail(
  { id, occurrence, onChange }: { id: string; occurrence: string | undefined; onChange: () => void },
): VNode {
  const [event, setEvent] = useState<EventDetail>();
  const query = occurrence === undefined ? {} : { occurrence };
  useEffect(() => {
    // A dialog without an event has nothing to offer.
    void attempt(async () => setEvent(await get<EventDetail>(eventPath(id), query)))
      .then((isRead) => isRead || closeDialog());
  }, [id, occurrence]);
  if (event === undefined) return html`<p class="empty">Loading…</p>`;
  const room = event.roomId === null ? undefined : rooms.value.get(event.roomId);
  const respond = (status: Rsvp): void =>
    void attempt(async () => {
      setEvent(await call<EventDetail>("PUT", `${eventPath(id)}/rsvp`, { status, ...query }));
      onChange();
    });
  const remove = (scope: "this" | "all"): void =>
    confirmThen("Delete this event?", event.title ?? "", "Delete", async () => {
      await call("DELETE", withQuery(eventPath(id), scope === "this" ? { scope, ...query } : {}));
      onChange();
    });
  const isSeries = event.rrule !== null || occurrence !== undefined;
  return html`
    <${Heading} title=${event.title ?? "Busy"} onClose=${closeDialog} />
    <p>${whenOf(event)}</p>
    ${event.rrule === null ? null : html`<p class="dim">Repeats ${ruleInWords(event.rrule)}</p>`}
    ${event.location === null ? null : html`<p dir="auto">${event.location}</p>`}
    ${room === undefined
      ? null
      : html`<p class="dim">In <a href=${`#/rooms/${room.id}/calendar`} onClick=${closeDialog}>${roomName(room)}</a>
      ${
        event.meetingId === null ? null : html`
          · <a href=${`#/rooms/${room.id}/call?meeting=${event.meetingId}`} onClick=${closeDialog}>Join the call</a>
        `
      }</p>`}
    ${event.reminders.length === 0
      ? null
      : html`<p class="dim">Reminder ${remindersInWords(event.reminders, event.allDay)}</p>`}
    ${event.createdBy === null ? null : html`<p class="dim">Organized by <bdi>${nameOf(event.createdBy)}</bdi></p>`}
    ${event.description === null ? null : html`<div class="text" dir="auto">${markdown(event.description)}</div>`}
    ${event.myStatus === null ? null : html`
      <div class="row" role="group" aria-label="Your response">${RESPONSES.map(([status, label]) =>
        html`
          <button type="button" key=${status} class=${event.myStatus === status
            ? "primary"
            : ""} aria-pressed=${event.myStatus === status}
            onClick=${() => respond(status)}>${label}</button>
        `
      )}</div>
    `}
    <ul class="rows">${event.attendees.map(({ principalId, email, status }) =>
      html`<li key=${principalId ?? email}>${
        principalId === null ? null : html`<${Avatar} id=${principalId} isSmall />`
      }<span class="person-link">${principalId === null ? email : nameOf(principalId)}</span>
        <small class="dim">${STATUS_WORDS[status] ?? status}</small></li>`
    )}</ul>
    ${mayEdit(event)
      ? html`<p class="row">
      <button type="button" onClick=${() => openEditEvent(event, occurrence, onChange)}>Edit</button>
      ${
        isSeries && occurrence !== undefined
          ? html`<button type="button" class="danger-text" onClick=${() => remove("this")}>Delete this one</button>`
          : null
      }
      <button type="button" class="danger-text" onClick=${() => remove("all")}>${
        isSeries ? "Delete the series" : "Delete"
      }</button></p>`
      : null}
  `;
}

function whenOf(event: EventDetail): string {
  const { startAt, endAt, start } = event;
  if ("date" in start) {
    const days = [...new Set([start.date, lastDayOf(event) ?? start.date])];
    return `${days.map((day) => dateOf(`${day}T12:00:00`)).join(" – ")}, all day`;
  }
  const when = `${fullTimeOf(startAt)} – ${isSameDay(startAt, endAt) ? timeOf(endAt) : fullTimeOf(endAt)}`;
  const { timeZone } = start;
  if (timeZone === Intl.DateTimeFormat().resolvedOptions().timeZone) return when;
  // A series stays at this time when one of the two zones changes its clocks.
  const there = new Intl.DateTimeFormat(locale, { timeZone, ...hour, minute: "2-digit" });
  return `${when} (${there.format(new Date(startAt))} in ${timeZone})`;
}
