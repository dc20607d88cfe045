// The state of vectors in the API.
import { z } from "@zod/zod";

const counts = {
  stored: z.int().describe("Number of items that have their vectors"),
  pending: z.int().describe("Number of items that wait for theirs"),
  failed: z.int().describe("Number of items whose text the model refuses"),
};

const Building = z.object({
  model: z.string().describe("Embedding model"),
  dimensions: z.int().nullable().describe("Dimensions of its vectors; null until the first one is known"),
  startedAt: z.iso.datetime().describe("When building began"),
  ...counts,
}).meta({ id: "VectorBuilding" });

export const VectorStatus = z.object({
  enabled: z.boolean().describe("Whether the tenant has an embedding model"),
  engine: z.string().describe("Where new vectors are stored and compared: scan (the gateway) or pgvector"),
  model: z.string().nullable().describe("Embedding model of the vectors that are searched; null if there are none yet"),
  dimensions: z.int().nullable().describe("Dimensions of these vectors"),
  vectors: z.int().describe("Number of these vectors; long texts have several"),
  ...counts,
  building: Building.nullable().describe("The vectors that are being built to replace these"),
  pausedCode: z.string().nullable().describe(
    "Why embedding is paused, such as `budget_exceeded` or the code of a model's failure; null if it is not",
  ),
  pausedUntil: z.iso.datetime().nullable().describe("When it is tried again"),
}).meta({ id: "VectorStatus" });
export type VectorStatus = z.output<typeof VectorStatus>;
