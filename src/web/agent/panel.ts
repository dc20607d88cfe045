// Agents at work below the conversation, or below the thread in which they were asked: their words as they come, what they
// wait for, and a button to stop them.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { post } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { generation, useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Room } from "../core/resources.ts";
import { route } from "../core/route.ts";
import { markdown } from "../message/markdown.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { LineForm } from "../part/line_form.ts";
import { Placeholder } from "../part/place.ts";
import { readableId } from "../room/names.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { type Approval, approvals, openRuns, readRun, type Run, runs, type Step, texts } from "./runs.ts";

const WORDS: Readonly<Record<string, string>> = {
  queued: "will start soon",
  running: "is working",
  waiting_approval: "waits for an approval",
  waiting_input: "has a question",
};
const PATH = "v1/collaboration/ai/runs";

/** The runs of a thread; or those of its room, without the thread that is open. */
export default function RunsPanel({ room, threadId }: { room: Room; threadId?: string }): VNode | null {
  // Rooms without agents have none, and a token may lack the scope.
  useEffect(() => void openRuns(room.id).catch(() => undefined), [room.id, generation.value]);
  const openId = route.value.query.get("thread");
  const own = [...runs.value.values()].filter((run) =>
    run.roomId === room.id &&
    (threadId === undefined ? openId === null || run.threadId !== openId : run.threadId === threadId)
  );
  if (own.length === 0) return null;
  return html`<div class="runs" aria-label="Agents at work">${
    own.map((run) => html`<${RunCard} key=${run.id} run=${run} />`)
  }</div>`;
}

function RunCard({ run }: { run: Run }): VNode {
  const text = texts.value.get(run.id) ?? "";
  const nodes = useMemo(() => text === "" ? null : markdown(text), [text]);
  const waiting = [...approvals.value.values()].filter(({ runId }) => runId === run.id);
  const stop = (): void => void attempt(() => post(`${PATH}/${run.id}/cancel`));
  return html`
    <section class="run">
      <header class="row"><${Avatar} id=${run.agentId} isSmall /><b dir="auto">${nameOf(run.agentId)}</b>
        <span class=${classes("dim", run.status === "running" && "pulse")}>${WORDS[run.status] ?? run.status}</span>
        <button type="button" class="link" onClick=${() => openTrace(run.id)}>steps</button>
        <button type="button" onClick=${stop}>Stop</button></header>
      ${nodes === null ? null : html`<div class="text" dir="auto">${nodes}</div>`}
      ${waiting.map((approval) => html`<${ApprovalCard} key=${approval.id} approval=${approval} />`)}
      ${run.status === "waiting_input" ? html`<${Reply} run=${run} />` : null}
    </section>
  `;
}

function ApprovalCard({ approval }: { approval: Approval }): VNode {
  const [isRemembered, setRemembered] = useState(false);
  const { id, tool, reason, roomId, targetRoomId, readerIds } = approval;
  const target = targetRoomId === roomId ? undefined : rooms.value.get(targetRoomId);
  const isDeciding = useRef(false);
  const card = useRef<HTMLDivElement>(null);
  const decide = async (decision: string): Promise<void> => {
    // A second time would be refused.
    if (isDeciding.current) return;
    isDeciding.current = true;
    const remember = isRemembered ? "room" : "once";
    await attempt(() => post(`v1/collaboration/ai/approvals/${id}/decision`, { decision, remember }));
    isDeciding.current = false;
  };
  // Its button may have the focus when it is removed; on a touch screen, the composer would open a keyboard.
  useLayoutEffect(() => {
    const { current } = card;
    const composer = current?.closest(".chat, .pane")?.querySelector<HTMLElement>(".composer textarea");
    return () => {
      if (current?.contains(document.activeElement) && matchMedia("(pointer: fine)").matches) composer?.focus();
    };
  }, []);
  return html`
    <div class="approval"
      ref=${card}><p><b>${tool}</b>${targetRoomId === roomId ? "" : " in "}${targetRoomId === roomId
        ? null
        : html`<b dir="auto">${
          target === undefined ? "another room" : roomName(target)
        }</b>`} <span class="dim">${reason}</span></p>
      ${readerIds.length === 0
        ? null
        : html`<p>Will be read by ${
          readerIds.map((reader, at) => html`${at === 0 ? "" : ", "}<b key=${reader} dir="auto">${nameOf(reader)}</b>`)
        }</p>`}
      <${Arguments} input=${approval.input} />
      <p class="row"><button type="button" class="primary" onClick=${() => void decide("approve")}>Approve</button>
        <button type="button" onClick=${() => void decide("deny")}>Deny</button>
        <label class="row"><input type="checkbox" checked=${isRemembered} onChange=${() =>
          setRemembered(!isRemembered)} /> Do not ask again here for 30 days</label></p></div>
  `;
}

/** Each argument for itself: a text cannot look like another argument. */
function Arguments({ input }: { input: string }): VNode | null {
  let fields: [name: string, value: unknown][];
  try {
    fields = Object.entries(JSON.parse(input));
  } catch {
    return input === "" ? null : html`<pre tabindex="0">${input}</pre>`;
  }
  return html`
    <dl>${fields.map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      return html`
        <dt key=${name}>${name}</dt>
        <dd>
          <pre tabindex="0" title=${text}>${name.endsWith("Id") ? readableId(text) : text}</pre>
        </dd>
      `;
    })}</dl>
  `;
}

function Reply({ run }: { run: Run }): VNode {
  return html`
    <${LineForm} draft=${`reply ${run.id}`} className="writer" label="Reply to the agent" placeholder="Reply" action="Reply"
      isPrimary
      onSend=${(text: string) => post(`${PATH}/${run.id}/reply`, { text })} />
  `;
}

function openTrace(id: string): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${Trace} id=${id} />
      </div>
    `
  );
}

/** What a run has done so far, and does meanwhile. */
function Trace({ id }: { id: string }): VNode {
  const [run, setRun] = useState<Run & { steps: Step[] }>();
  const read = useLatest(() => readRun(id), setRun);
  useLive(read, ({ type, data }) => (type === "run.step" ? data.runId : data?.run?.id) === id, [id]);
  return html`
    <${Heading} title="Steps of the agent" onClose=${closeDialog} />
    ${run === undefined ? html`<${Placeholder} read=${read} />` : html`
      <p class="dim">${[
        WORDS[run.status] ?? run.status,
        run.model ?? "no model yet",
        fullTimeOf(run.createdAt),
        `${run.usage.inputTokens.toLocaleString()} tokens in`,
        `${run.usage.outputTokens.toLocaleString()} out`,
        `cost ${(run.usage.costMicros / 1e6).toFixed(4)}`,
        ...run.error === null ? [] : [run.error.detail],
      ].join(", ")}</p>
      <ol class="steps">${run.steps.map((one, at) =>
        html`<li key=${at}><b>${one.tool ?? one.kind}</b> <span class="tag">${one.status}</span>
        ${
          [one.text, one.input, one.result].filter((part) => part !== null && part !== "").map((part, n) =>
            html`<pre key=${n} tabindex="0">${part}</pre>`
          )
        }</li>`
      )}</ol>
    `}
  `;
}
