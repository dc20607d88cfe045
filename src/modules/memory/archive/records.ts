// The records of facts in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter, listOf } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { KINDS, MemoryId, SCOPE_TYPES, TEXT_MAX } from "../schema.ts";

const NullableTime = TimeInput.nullable();

export const MemoryRecord = z.object({
  id: MemoryId,
  scope: z.object({ type: z.enum(SCOPE_TYPES), id: z.union([RoomId, PrincipalId]) }),
  kind: z.enum(KINDS),
  text: z.string().min(1).max(TEXT_MAX),
  subjectIds: listOf(PrincipalId),
  sources: listOf(z.object({ messageId: MessageId })),
  confidence: z.number().min(0).max(1),
  validFrom: NullableTime,
  validTo: NullableTime,
  expiresAt: NullableTime,
  pinned: z.boolean(),
  status: z.enum(["proposed", "active", "superseded"]),
  supersedes: MemoryId.nullable(),
  supersededBy: MemoryId.nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
});
export type MemoryRecord = z.output<typeof MemoryRecord>;
