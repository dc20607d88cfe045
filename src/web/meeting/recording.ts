// Recordings of calls, which everybody in them has to agree to, and what was said in those that have ended.
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { call as send, get, post } from "../core/api.ts";
import { count, dateOf, MINUTE_MS, timeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Page } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { closeDialog, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { usePages } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import type { Call } from "./call.ts";
import { type Meeting, PATH, type Recording } from "./meetings.ts";

type Segment = { id: string; startMs: number; speakerId: string; text: string };

/** One that was requested, and has not ended. */
export function isOpen(recording: Recording | null | undefined): recording is Recording {
  return recording !== null && recording !== undefined && !["stopped", "failed"].includes(recording.state);
}

/** What is asked, or that the call is recorded; moderators may end that. */
export function RecordingBanner({ current, isModerator }: { current: Call; isModerator: boolean }): VNode | null {
  const recording = current.recording.value;
  if (recording?.state === "failed") return html`<p class="banner" role="status">The recording has failed.</p>`;
  if (!isOpen(recording)) return null;
  const path = `${PATH}/${current.meeting.id}/recording`;
  const { consentText, requestedBy, pendingIds, state } = recording;
  const answer = (consent: boolean): void => void attempt(() => send("PUT", `${path}/consent`, { consent }));
  const stop = (): void => void attempt(() => send("DELETE", path));
  if (pendingIds.includes(myId())) {
    return html`
      <div class="banner" role="alert">
        <span><b dir="auto">${nameOf(
          requestedBy,
        )}</b> asks to record this call: <span dir="auto">${consentText}</span>${" "}It is recorded only if everybody agrees.</span>
        <button type="button" class="primary" onClick=${() => answer(true)}>Agree</button>
        <button type="button" onClick=${() => answer(false)}>Decline</button>
      </div>
    `;
  }
  const isAsked = state === "requested";
  return html`
    <div class="banner" role="status">
      <span>${isAsked
        ? `The recording begins once ${count(pendingIds.length, "other participant")} agreed: `
        : state === "stopping"
        ? "The recording ends: "
        : "This call is recorded: "}<span dir="auto">${consentText}</span></span>
      ${isModerator && state !== "stopping"
        ? html`<button type="button" onClick=${stop}>${isAsked ? "Withdraw" : "Stop recording"}</button>`
        : null}
    </div>
  `;
}

export function openRecord({ meeting: { id } }: Call): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Record this call" action="Ask everybody" onSubmit=${(fields: FormData) =>
        post(`${PATH}/${id}/recording`, { consentText: String(fields.get("consentText")).trim() })}>
        <label>What the recording is for <textarea name="consentText" rows="3" required maxlength="2000" autofocus
          placeholder="For colleagues who cannot be here"></textarea></label>
        <p class="dim">The recording begins once everybody has agreed. Those who join later agree by joining.</p>
        <//>
    `
  );
}

/** Calls of a room that have ended. */
export function PastCalls({ roomId }: { roomId: string }): VNode | null {
  const { page, read, more } = usePages((cursor) =>
    get<Page<Meeting>>(PATH, { roomId, state: ["ended"], limit: 10, cursor })
  );
  useEffect(read, [roomId]);
  // Few rooms have any: it shows no more than that they could not be read.
  if (page?.items.length === 0) return null;
  return html`
    <section class="past-calls">
      <h2>Earlier calls</h2>
      <${Placeholder} items=${page?.items} read=${read} />
      <ul class="rows">${page?.items.map((one) =>
        html`
          <li key=${one.id}><div><span dir="auto">${one.title ?? `Call by ${nameOf(one.createdBy)}`}</span>
            <small class="dim">${describe(one)}</small></div>
            <button type="button" onClick=${() => openTranscript(one)}>Transcript</button></li>
        `
      )}</ul>
      ${more === undefined ? null : html`<p><button type="button" onClick=${more}>Show more</button></p>`}
    </section>
  `;
}

function describe({ startedAt, endedAt, createdAt, recording }: Meeting): string {
  const at = startedAt ?? createdAt;
  const minutes = startedAt === null || endedAt === null
    ? undefined
    : Math.max(1, Math.round((Date.parse(endedAt) - Date.parse(startedAt)) / MINUTE_MS));
  return [
    `${dateOf(at)}, ${timeOf(at)}`,
    minutes === undefined ? "without participants" : count(minutes, "minute"),
    ...(recording?.startedAt ?? null) === null ? [] : ["recorded"],
  ].join(", ");
}

/** What programs, such as agents, have written down of what was said. */
function openTranscript({ id, title }: { id: string; title: string | null }): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${Heading} title=${title === null ? "Transcript" : `Transcript: ${title}`} onClose=${closeDialog} />
        <${Transcript} id=${id} />
      </div>
    `
  );
}

function Transcript({ id }: { id: string }): VNode {
  const { page, read, more } = usePages((cursor) =>
    get<Page<Segment>>(`${PATH}/${id}/transcript`, { limit: 200, cursor })
  );
  useEffect(read, [id]);
  return html`
    <${Placeholder} items=${page?.items} read=${read} text="There is no transcript. Agents and programs can add one." />
    <ul class="rows">${page?.items.map(({ id, startMs, speakerId, text }) =>
      html`
        <li key=${id}><span class="dim">${clockOf(startMs)}</span>
          <div><b dir="auto">${nameOf(speakerId)}</b><span dir="auto">${text}</span></div></li>
      `
    )}</ul>
    ${more === undefined ? null : html`<p><button type="button" onClick=${more}>Show more</button></p>`}
  `;
}

/** Since the start, such as 1:02:03. */
function clockOf(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts.slice(parts[0] === 0 ? 1 : 0).map((part, at) => at === 0 ? String(part) : String(part).padStart(2, "0"))
    .join(":");
}
