// What an editor shows as unsaved. Its provider counts the first sync and each of its updates until they are acknowledged. The
// engine acknowledges what it applies; what it does not apply is part of the editor's next sync, and acknowledged with that.
import { classifyUpdate, isIncludedIn } from "../content/crdt.ts";
import type { EditorConnection, EditorContext, Send } from "./editor_connection.ts";

/**
 * An update is not applied, since its editor may not write now, or has not sent its first sync. Updates from before a reconnect
 * were queued in the client, which no longer counts them; an acknowledgement would be taken for that of a newer one.
 */
export function deferUpdate(context: EditorContext, update: Uint8Array): void {
  if (context.vector === undefined || !isIncludedIn(context.vector, update)) context.unacknowledged++;
}

/** The sync of an editor that may not write: the engine acknowledges it if there is nothing new in it. */
export function readSync({ context, document }: EditorConnection, update: Uint8Array): void {
  const relation = context.account.measure(() => classifyUpdate(document, update));
  if (relation === "duplicate") context.unacknowledged = Math.max(0, context.unacknowledged - 1);
}

/** The sync of an editor was accepted: acknowledges all that is in it, but for one, which the engine does. */
export function acknowledgeSync(editor: EditorConnection, send: Send): void {
  for (let left = editor.context.unacknowledged; left > 1; left--) {
    send(editor, (message) => message.writeSyncStatus(true));
  }
  editor.context.unacknowledged = 0;
}
