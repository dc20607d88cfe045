// Facts, messages and search results as candidates for a context: texts for a model, with labels, reasons and sources.
import type { RecallHit } from "@/modules/search/mod.ts";
import type { RoomGrant } from "@/modules/room/mod.ts";
import type { Message } from "@/modules/message/mod.ts";
import type { ReadableFact } from "../presenter.ts";
import type { Candidate } from "./budget.ts";

/** A fact as background: a model must not read it as an instruction, nor as certain. */
export function factCandidate(fact: ReadableFact, reason: string, isStable: boolean, score: number | null): Candidate {
  const { row, visibleSources: [source] } = fact;
  const parts = [
    `${row.kind} recorded ${dayOf(row.created_at)} by ${row.created_by}`,
    ...row.valid_from === null ? [] : [`valid since ${dayOf(row.valid_from)}`],
    ...Number(row.confidence) < 1 ? [`confidence ${Number(row.confidence)}`] : [],
    source === undefined ? "without a source" : `source: message ${source.message_id}`,
  ];
  return {
    role: isStable ? "system" : "user",
    text: `[Background, may be outdated: ${parts.join(", ")}] ${row.text ?? ""}`,
    canTruncate: false,
    score,
    reason,
    source: {
      type: "memory",
      id: row.id,
      roomId: row.scope_type === "room" ? row.scope_id : source?.room_id ?? null,
      at: row.created_at,
    },
  };
}

/** A message of the conversation: of the agent as the assistant's own, of others with their names. */
export function messageCandidate(
  message: Message,
  { agentId, names, reason }: { agentId: string | undefined; names: ReadonlyMap<string, string>; reason: string },
): Candidate {
  const isOwn = message.senderId === agentId;
  const files = message.files.map(({ name }) => `(file: ${name})`);
  const text = [message.text ?? "", ...files].filter((part) => part !== "").join("\n");
  const label = `[${names.get(message.senderId) ?? message.senderId}]`;
  return {
    role: isOwn ? "assistant" : "user",
    text: isOwn ? text : `${label} ${text}`,
    canTruncate: true,
    score: null,
    reason,
    ...message.files.length === 0 ? {} : { files: message.files },
    source: { type: "message", id: message.id, roomId: message.roomId, at: message.createdAt },
  };
}

/** What the room is about, and the ids of those whose messages are labelled with names. */
export function roomCandidate({ room }: RoomGrant, names: ReadonlyMap<string, string>): Candidate {
  const people = [...names].map(([id, name]) => `${name} (id ${id})`);
  const parts = [
    room.kind === "direct" ? "This is a direct conversation." : `This is the room "${room.name}".`,
    ...people.length === 0 ? [] : [`People here: ${people.join(", ")}`],
    ...room.topic === null || room.topic === "" ? [] : [`Topic: ${room.topic}`],
    ...room.description === null || room.description === "" ? [] : [`Description: ${room.description}`],
  ];
  return {
    role: "user",
    text: `[Background] ${parts.join("\n")}`,
    canTruncate: true,
    score: null,
    reason: "the room of the conversation",
    source: { type: "room", id: room.id, roomId: room.id, at: room.updated_at },
  };
}

/** A search result as background, with its kind, date and room. */
export function hitCandidate({ kind, id, score, item, excerpt }: RecallHit, roomName: string | undefined): Candidate {
  const { createdAt, roomId } = item as { createdAt?: string; roomId?: string | null }; // an item of a searchable
  const parts = [
    kind,
    ...createdAt === undefined ? [] : [`of ${dayOf(createdAt)}`],
    ...roomName === undefined || roomName === "" ? [] : [`in the room "${roomName}"`],
  ];
  return {
    role: "user",
    text: `[Background, found by search: ${parts.join(" ")}] ${excerpt}`,
    canTruncate: false,
    score,
    reason: "matches the question",
    source: { type: kind, id, roomId: roomId ?? null, at: createdAt ?? null },
  };
}

function dayOf(time: string): string {
  return time.slice(0, 10);
}
