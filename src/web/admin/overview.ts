// Load, connections and events as they happen.
import type { VNode } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { timeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { onEvent } from "../core/live.ts";
import { attempt, notify } from "../core/notice.ts";
import { nameOf, online } from "../core/people.ts";
import type { LiveEvent } from "../core/resources.ts";
import { me } from "../core/session.ts";
import { renameTeam } from "../core/team.ts";
import { Avatar } from "../part/avatar.ts";
import { SavedField } from "../part/saved_field.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { type Point, pointOf, readSample, type Sample } from "./metrics.ts";

const SAMPLE_MS = 2000;
const POINTS_MAX = 90;
const EVENTS_MAX = 200;

type Seen = { event: LiveEvent; channel: string; key: number };

/** Since the page was loaded. */
const tail = signal<readonly Seen[]>([]);
let nextKey = 0;
onEvent((event, channel) => {
  if (event.type.startsWith("presence.")) return;
  tail.value = [{ event, channel, key: nextKey++ }, ...tail.value].slice(0, EVENTS_MAX);
});

export function Overview(): VNode {
  const [points, setPoints] = useState<readonly Point[]>([]);
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    let last: Sample | undefined;
    let isOpen = true;
    const take = async (): Promise<void> => {
      try {
        const sample = await readSample();
        const before = last;
        last = sample;
        setMissing(false);
        if (isOpen && before !== undefined) setPoints((all) => [...all, pointOf(before, sample)].slice(-POINTS_MAX));
      } catch {
        // Served on another port, or with a token: Prometheus has them.
        setMissing(true);
      }
    };
    void take();
    const timer = setInterval(take, SAMPLE_MS);
    return () => {
      isOpen = false;
      clearInterval(timer);
    };
  }, []);
  const last = points.at(-1);
  return html`
    <${TeamName} />
    ${isMissing ? html`<p class="dim">Metrics of this gateway are not served on this port.</p>` : html`
      <div class="tiles">
        <${Tile} title="Requests per second" value=${last?.requestsPerSecond} values=${points.map((one) =>
          one.requestsPerSecond
        )} />
        <${Tile} title="Mean latency, ms" value=${last?.latencyMs} values=${points.map((one) => one.latencyMs)} />
        <${Tile} title="Messages per second" value=${last?.messagesPerSecond} values=${points.map((one) =>
          one.messagesPerSecond
        )} />
        <${Tile} title="Server errors per second" value=${last?.errorsPerSecond} values=${points.map((one) =>
          one.errorsPerSecond
        )} />
      </div>
    `}
    <section>
      <h2>Online in your rooms</h2>
      <p class="row">${[...online.value].slice(0, 40).map((id) =>
        html`<span class="row" key=${id}><${Avatar} id=${id} isSmall hasPresence /> ${nameOf(id)}</span>`
      )}</p>
    </section>
    <section><h2>Events</h2>
      ${tail.value.length === 0 ? html`<p class="dim">Events of your rooms are listed here as they happen.</p>` : null}
      <div class="scroll-x" tabindex="0"><table class="events"><tbody>${tail.value.map(({ event, channel, key }) =>
        html`
          <tr key=${key}>
            <td><time>${timeOf(event.at)}</time></td>
            <td><code>${event.type}</code></td>
            <td>${event.actor === null ? "" : nameOf(event.actor.id)}</td>
            <td class="dim">${placeOf(channel)}</td>
          </tr>
        `
      )}</tbody></table></div></section>
  `;
}

/** As it is above the rooms of everybody. */
function TeamName(): VNode | null {
  const { value } = me;
  if (value === undefined) return null;
  const rename = (name: string): Promise<boolean> =>
    attempt(async () => {
      await renameTeam(name);
      notify("Saved");
    });
  return html`
    <section class="fields"><label>Name of your team <${SavedField} label="Name of your team" isRequired maxlength=${120}
      value=${value.tenant.name} onSave=${rename} /></label></section>
  `;
}

function Tile(
  { title, value, values }: { title: string; value: number | undefined; values: readonly number[] },
): VNode {
  const top = Math.max(...values, 1);
  const points = values.map((one, at) => `${at * 300 / (POINTS_MAX - 1)},${56 - one / top * 50}`).join(" ");
  return html`
    <figure class="tile">
      <figcaption><span class="dim">${title}</span><b>${value === undefined
        ? "…"
        : value >= 10
        ? Math.round(value)
        : value.toFixed(1)}</b></figcaption>
      <svg viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label=${title}>
        <polyline points=${points} />
      </svg>
    </figure>
  `;
}

function placeOf(channel: string): string {
  const room = rooms.value.get(channel.replace(/^room:/, ""));
  return room === undefined ? channel : roomName(room);
}
