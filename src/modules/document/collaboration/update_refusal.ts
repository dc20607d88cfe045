// How an editor learns that its update was rejected, which then is in its own copy only.
import type { Fault, FaultCode } from "@/core/fault.ts";
import { MissingDependency } from "../content/service.ts";
import type { EditorConnection, Send } from "./editor_connection.ts";
import { CLOSE } from "./editor_socket.ts";

/** Faults of updates that a retry does not change. */
const FINAL_FAULTS: ReadonlySet<FaultCode> = new Set(["validation_failed", "payload_too_large", "limit_reached"]);
/** Reason of a connection that ends because of what the editor sent. */
const CONTENT_REFUSED = "content-refused";

/**
 * Sends the problem code of a rejected update. Later updates depend on it: unless the document may accept it after all, the editor
 * is disconnected with a reason that its provider passes on, so that it does not continue with what is never saved.
 */
export function refuseUpdate(editor: EditorConnection, fault: Fault, send: Send): void {
  const { code, message } = fault;
  editor.sendStateless(JSON.stringify({ type: "document.refused", code, detail: message }));
  if (!FINAL_FAULTS.has(code) && !(fault instanceof MissingDependency)) return;
  send(editor, (outgoing) => outgoing.writePermissionDenied(CONTENT_REFUSED));
  const { context: { socket }, messageAddress } = editor;
  // After the engine has responded to the update.
  queueMicrotask(() => {
    socket.removeEditor(messageAddress);
    editor.close({ code: CLOSE.refused.code, reason: message });
  });
}
