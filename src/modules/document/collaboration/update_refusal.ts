// How an editor learns that its update was rejected, which then is in its own copy only.
import type { Fault, FaultCode } from "@/core/fault.ts";
import { MissingDependency } from "../content/service.ts";
import type { EditorConnection, Send } from "./editor_connection.ts";
import { CLOSE } from "./editor_socket.ts";

/** Faults that say that the editor may not write, or no longer. */
const ACCESS_FAULTS: ReadonlySet<FaultCode> = new Set([
  "unauthenticated",
  "token_expired",
  "token_revoked",
  "forbidden",
  "scope_missing",
  "agent_muted",
  "not_found",
  "conflict",
  "room_archived",
]);
/** What the provider emits as the reason of `authenticationFailed`. */
const REASONS: Partial<Record<FaultCode, string>> = { quota_exceeded: "quota-exceeded" };
const CONTENT_REFUSED = "content-refused";

/** Whether an update was rejected because its editor may not write, which is not the fault of the update. */
export function isAccessFault(fault: Fault): boolean {
  return ACCESS_FAULTS.has(fault.code) && !(fault instanceof MissingDependency);
}

/** Sends the problem code of a rejected update, which the provider emits as `stateless`. */
export function reportRefusal(editor: EditorConnection, { code, message }: Fault): void {
  editor.sendStateless(JSON.stringify({ type: "document.refused", code, detail: message }));
}

/**
 * Disconnects the editor of a rejected update from the document, with a reason that its provider passes on: later updates depend
 * on it, so the editor must not continue with what is never saved.
 */
export function refuseUpdate(editor: EditorConnection, fault: Fault, send: Send): void {
  reportRefusal(editor, fault);
  send(editor, (outgoing) => outgoing.writePermissionDenied(REASONS[fault.code] ?? CONTENT_REFUSED));
  const { context: { socket }, messageAddress } = editor;
  // After the engine has responded to the update.
  queueMicrotask(() => {
    socket.removeEditor(messageAddress);
    editor.close({ code: CLOSE.refused.code, reason: fault.message });
  });
}
