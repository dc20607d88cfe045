// Whose turn it is: changes of the tasks of one room wait for each other, and so do changes of relations in a tenant.
import { roomStream } from "@/core/event.ts";
import type { Transaction } from "@/ports/store.ts";
import type { TaskTables } from "./tables.ts";

/** A stream that never has an event; relations may span rooms, and no two may close a circle together. */
const RELATIONS = "task:relations";

// Reserving nothing in a stream is holding it until the commit. It is the lock that the store knows how to share between
// writers of one batch, and every change of a task needs its room's stream for its event anyway.

/** Holds a room: everything read after this is what the change builds on. */
export async function lockRoom(tx: Transaction<TaskTables>, tenantId: string, roomId: string): Promise<void> {
  await tx.reserve(tenantId, roomStream(roomId), 0);
}

/** Holds the relations of a tenant. To be taken before rooms. */
export async function lockRelations(tx: Transaction<TaskTables>, tenantId: string): Promise<void> {
  await tx.reserve(tenantId, RELATIONS, 0);
}
