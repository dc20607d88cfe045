// A gateway with an embedding model.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { hashingVector } from "../../hashing_embedder.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { search as searchUntilComplete } from "../fixtures.ts";

export const EMBEDDING = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_EMBEDDING_MODEL: "hash" };

type VectorGateway = { gateway: Harness; models: ScriptedModels; [Symbol.asyncDispose](): Promise<void> };

export async function openVectorGateway(environment: Record<string, string> = {}): Promise<VectorGateway> {
  const models = new ScriptedModels(undefined, (text) => hashingVector(text));
  const gateway = await openGateway({ ...EMBEDDING, ...environment }, { models });
  return { gateway, models, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

/** Searches with a model that works. */
export function search(
  who: Caller,
  query: string,
  more: Record<string, unknown> = {},
): Promise<ApiResponse["body"]> {
  return searchUntilComplete(who, { query, ...more }, ["index_incomplete", "model_unavailable"]);
}

/** Ids of the items of a response. */
export function idsOf({ items }: ApiResponse["body"]): string[] {
  return items.map((item: { kind: string } & Record<string, { id: string }>) => item[item.kind]?.id);
}

/** Everything that can be searched has its vectors. */
export async function embedAll(gateway: Harness, who: Caller): Promise<void> {
  // A search indexes the newest messages, and asks for vectors if there are none yet.
  await search(who, "anything", { mode: "hybrid" });
  await gateway.runJobs();
}

/** How many vectors are stored, of one resource or of all. */
export async function countVectors({ app }: Harness, id?: string): Promise<number> {
  const engine = app.modules.find(({ name }) => name === "vector")?.capability?.().engine;
  const table = engine === "pgvector" ? "vector_embedding" : "vector_row";
  const { rows: [row] } = await sql<{ n: number }>`select count(*) as n from ${sql.table(table)}
    where ${id === undefined ? sql`true` : sql`id = ${id}`}`.execute(app.store.db);
  return Number(row?.n ?? 0);
}

/** A room of its creator with these messages. */
export async function createRoom(
  who: Caller,
  texts: readonly string[],
  more: Record<string, unknown> = {},
): Promise<{ roomId: string; ids: string[] }> {
  const room = await who.post("/v1/rooms", { name: "Room", ...more });
  assert.equal(room.status, 201, JSON.stringify(room.body));
  const ids: string[] = [];
  for (const text of texts) {
    const sent = await who.post("/v1/messages", { roomId: room.body.id, text });
    assert.equal(sent.status, 201, JSON.stringify(sent.body));
    ids.push(sent.body.id);
  }
  return { roomId: room.body.id, ids };
}
