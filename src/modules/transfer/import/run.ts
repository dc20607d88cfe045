// What the parts of a running import share.
import type { Transaction } from "@/ports/store.ts";
import type { RefFactory } from "../format/model.ts";
import type { TransferTables } from "../store.ts";
import type { ImportedPrincipals } from "./principals.ts";
import type { Report } from "./report.ts";

/** A room that messages are imported into. */
export type OpenRoom = { id: string; isNew: boolean; advancedReaders: Set<string> };

export interface ImportRun {
  readonly report: Report;
  readonly principals: ImportedPrincipals;
  /** Creates references to resources of the archive. */
  readonly refs: RefFactory;
  /** The current time, as rows store it. */
  readonly now: string;
  /** Stores the progress, and checks that the import still runs. */
  checkpoint(): Promise<void>;
  /** Throws when the gateway shuts down. */
  assertRunning(): void;
  /** A transaction of the import: it checks that the import still runs, and stores its progress. */
  write<Result>(work: (tx: Transaction<TransferTables>) => Promise<Result>): Promise<Result>;
}
