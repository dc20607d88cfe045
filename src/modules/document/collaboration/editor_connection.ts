// An editor as the engine sees it: one connection to one document, with the principal and rights of its client.
import type { Connection } from "@hocuspocus/server";
import type { Actor } from "@/core/actor.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { STATES_MAX_CHARS } from "../limits.ts";
import type { DocumentReplica } from "./document_replica.ts";
import { isUpdateFrame } from "./editor_frame.ts";
import type { EditorSocket } from "./editor_socket.ts";

/** What a connection to one document carries. */
export type EditorContext = {
  socket: EditorSocket;
  actor: Actor;
  canWrite: boolean;
  /** The CPU account it is charged to. */
  account: CpuAccount;
  /** State vector of the client's copy when it connected. */
  vector?: Uint8Array;
  /** The client's first sync, with everything it had before it connected, was received. */
  hasSynced?: true;
  /** The first sync and updates that the client counts as unsaved until its next sync is acknowledged. */
  unacknowledged: number;
  /** A newer token has been requested. */
  isTokenRequested?: true;
  /** The newer token could not be checked, as the store or the identity provider is unavailable. */
  isTokenUnverified?: true;
};
export type EditorConnection = Connection<EditorContext>;

/** The engine's package, loaded on first use. */
export type HocuspocusModule = typeof import("@hocuspocus/server");
type Outgoing = InstanceType<HocuspocusModule["OutgoingMessage"]>;

/** Sends a message of the protocol to an editor. */
export type Send = (editor: EditorConnection, write: (message: Outgoing) => Outgoing) => void;

/** Why a connection is refused. Without a message, because the engine prints messages. */
export class ConnectionRefused extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super();
    this.reason = reason;
  }
}

/** An editor is one client of a document, and another one when it finds its client id in use. */
const CLIENTS_MAX = 8;

/** Removes awareness states of other clients, which providers repeat, and those beyond the limits of an editor. */
export function filterOwnStates(
  document: DocumentReplica["document"],
  editor: EditorConnection,
  states: Map<number, unknown>,
): void {
  const own = document.getClients(editor);
  const known = document.awareness.getStates();
  let free = CLIENTS_MAX - own.size;
  let freeChars = STATES_MAX_CHARS;
  for (const client of own) if (!states.has(client)) freeChars -= charsOf(known.get(client));
  for (const [client, state] of states) {
    const isForeign = !own.has(client) && (known.has(client) || free-- <= 0);
    if (isForeign || (freeChars -= charsOf(state)) < 0) states.delete(client);
  }
}

function charsOf(state: unknown): number {
  return JSON.stringify(state)?.length ?? 0;
}

/** Removes what waits on a closed socket behind the current frame, except updates that its client has sent. */
export function discardFrames(editor: EditorConnection): void {
  const queue = editor["messageQueue"];
  const { isDiscarded } = editor.context.socket;
  const [current, next] = queue;
  // Once those behind it are updates, nothing remains to remove.
  if (current === undefined || !isDiscarded && (next === undefined || isUpdateFrame(next))) return;
  queue.splice(1, Infinity, ...isDiscarded ? [] : queue.slice(1).filter(isUpdateFrame));
}

/** Charges editors for the time it takes to apply their updates to a document. */
export function chargeUpdates({ isTransactionOrigin }: HocuspocusModule, document: DocumentReplica["document"]): void {
  let startedAt = 0;
  document.on("beforeAllTransactions", () => {
    startedAt = performance.now();
  });
  document.on("afterAllTransactions", (_, [first]) => {
    const origin: unknown = first?.origin;
    if (!isTransactionOrigin(origin) || origin.source !== "connection") return;
    origin.connection.context.account.consume(performance.now() - startedAt);
  });
}
