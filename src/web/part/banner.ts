// What the page says about itself: the state of the connection, and notices.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { count } from "../core/format.ts";
import { connection, reconnect } from "../core/live.ts";
import { dismiss, notices } from "../core/notice.ts";
import { hrefOf, route } from "../core/route.ts";
import { callRoomId } from "../meeting/active.ts";
import { unsent } from "../message/outbox.ts";

/** A short interruption is not worth a word. */
const SHOWN_AFTER_MS = 1500;

/** Shown while there is no connection. */
export function ConnectionBanner(): VNode | null {
  const [isLong, setLong] = useState(false);
  const isConnected = connection.value === "connected";
  useEffect(() => {
    setLong(false);
    if (isConnected) return;
    const timer = setTimeout(() => setLong(true), SHOWN_AFTER_MS);
    return () => clearTimeout(timer);
  }, [isConnected]);
  if (isConnected || !isLong) return null;
  const waiting = unsent.value.length;
  return html`
    <div class="banner" role="status">
      <span>Reconnecting…${waiting === 0 ? null : ` ${count(waiting, "message")} will be sent then.`}</span>
      <button type="button" class="plain" onClick=${reconnect}>Try now</button>
    </div>
  `;
}

/** Shown elsewhere while this tab takes part in a call: others receive its sound and picture. */
export function CallBanner(): VNode | null {
  const id = callRoomId.value;
  const { path } = route.value;
  if (id === undefined || path[1] === id && path[2] === "call") return null;
  return html`
    <div class="banner" role="status"><span>You are in a call.</span><a href=${hrefOf([
      "rooms",
      id,
      "call",
    ])}>Return to it</a></div>
  `;
}

export function Notices(): VNode {
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.value.map(({ id, text, isProblem }) =>
        html`
          <button type="button" key=${id} class=${isProblem ? "problem" : ""} title="Dismiss"
            onClick=${() => dismiss(id)}>${text}</button>
        `
      )}
    </div>
  `;
}
