// What a migration is: one numbered step forward, the same for both engines.
import type { Kysely } from "kysely";
import type { Dialect } from "@/ports/store.ts";

/** A step is run once, in a transaction, in the order of `mod.ts`; it is never changed after it has shipped. */
export type Migration = { name: string; up(db: Kysely<unknown>, dialect: Dialect): Promise<void> };
