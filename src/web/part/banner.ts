// What the page says about itself: the state of the connection, and notices.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { count } from "../core/format.ts";
import { connection, reconnect } from "../core/live.ts";
import { dismiss, notices } from "../core/notice.ts";
import { hrefOf, route } from "../core/route.ts";
import { callRoomId } from "../meeting/active.ts";
import { unsent } from "../message/outbox.ts";
import { Icon } from "./icon.ts";

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
  const waiting = unsent.value.filter(({ failure }) => failure === undefined).length;
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

/** They are over what is used: a pointer reaches what is below the text of those that end by themselves. */
export function Notices(): VNode {
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.value.map(({ id, text, isProblem, isLasting }) =>
        html`
          <div key=${id} class=${classes(isProblem && "problem", isLasting && "lasting")}><span>${text}</span>
            <button type="button" class="plain" aria-label="Dismiss" title="Dismiss"
              onClick=${() => dismiss(id)}><${Icon} name="close" /></button></div>
        `
      )}
    </div>
  `;
}
