// An editor as the engine holds it: one connection to one document, and what we know of who is behind it.
import type { Connection } from "@hocuspocus/server";
import type { Actor } from "@/core/actor.ts";
import type { Share } from "../share.ts";
import type { SyncSession } from "./session.ts";

/** What a connection to one document carries. */
export type Editing = {
  session: SyncSession;
  actor: Actor;
  canWrite: boolean;
  /** What its member may take of the node's time. */
  share: Share;
  /** Where the client's copy stood when it connected. */
  vector?: Uint8Array;
  /** What it had before it connected, and until it heard from us, has come. */
  hasSynced?: true;
  /** Updates that came before that, to be answered with it. */
  owed?: number;
  /** A newer token has been asked for. */
  isAsked?: true;
};
export type Editor = Connection<Editing>;

/** The engine's package, loaded on first use. */
export type Library = typeof import("@hocuspocus/server");
type Outgoing = InstanceType<Library["OutgoingMessage"]>;

/** Sends a message of the protocol to an editor. */
export type Send = (editor: Editor, write: (message: Outgoing) => Outgoing) => void;

/** Why the engine does not let somebody in; without a message, since the engine prints those. */
export class Refusal extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super();
    this.reason = reason;
  }
}
