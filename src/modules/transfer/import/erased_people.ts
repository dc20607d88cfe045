// What an archive has of people who were erased here since: what they wrote stays deleted, and what others continue names a pseudonym.
import { DELETED_NAME } from "@/core/erasure.ts";
import { idFieldsOf, replaceIn } from "@/core/erasure_json.ts";
import { isObject } from "@/core/json.ts";
import type { SourceBan, SourceMessage } from "../format/model.ts";

/** Fields that name who has or made something, and who wrote or said a text. */
const OWNERS = ["createdBy", "ownerId", "organizerId"] as const;
const AUTHORS = ["authorId", "speakerId"] as const;

export type Erased = { tenantId: string; pseudonymId: string; isErased(id: string, at: string | null): boolean };

/** A message without what the person wrote in it; without mentions and reactions of those who were erased. */
export function withoutErased(draft: SourceMessage, { pseudonymId, isErased }: Erased): SourceMessage {
  const { senderId, at, mentions } = draft;
  const reactions = draft.reactions.filter((reaction) => !isErased(reaction.principalId, reaction.at));
  const principalIds = mentions.principalIds.filter((id) => !isErased(id, at));
  const rest = { ...draft, reactions, mentions: { ...mentions, principalIds } };
  return isErased(senderId, at) ? { ...rest, senderId: pseudonymId, deletedAt: draft.deletedAt ?? at } : rest;
}

/** A ban as it is without those who were erased; `undefined` if it was of one of them. */
export function banWithoutErased(ban: SourceBan, { pseudonymId, isErased }: Erased): SourceBan | undefined {
  const { principalId, createdBy, createdAt } = ban;
  if (isErased(principalId, createdAt)) return undefined;
  return isErased(createdBy, createdAt) ? { ...ban, createdBy: pseudonymId } : ban;
}

/** A record of another kind with the pseudonym; `undefined` for a text of the person, a fact about it, and what nobody else may see. */
export function recordWithoutErased(record: unknown, { tenantId, pseudonymId, isErased }: Erased): unknown {
  if (!isObject(record)) return record;
  const { createdAt, at, roomId, scope, subjectIds } = record;
  const time = [createdAt, at].find((one) => typeof one === "string") ?? null;
  const ids = [...namedIn(record)].filter((id) => isErased(id, time));
  if (ids.length === 0) return record;
  const isOf = (fields: readonly string[]): boolean => fields.some((field) => ids.includes(String(record[field])));
  const isOwn = isOf(AUTHORS) || (typeof roomId !== "string" && isOf(OWNERS));
  const about = [isObject(scope) ? scope["id"] : undefined, subjectIds].flat();
  if (isOwn || about.some((id) => ids.includes(String(id)))) return undefined;
  return ids.reduce<unknown>((value, principalId) => {
    return replaceIn(value, { tenantId, principalId, pseudonymId, displayName: DELETED_NAME, deletesContent: true });
  }, record);
}

/** The texts of all fields that may be ids of principals. */
export function namedIn(value: unknown, isId = false, found = new Set<string>()): Set<string> {
  if (typeof value === "string") {
    if (isId) found.add(value);
  } else if (Array.isArray(value)) {
    for (const item of value) namedIn(item, isId, found);
  } else if (isObject(value)) {
    const hasIds = idFieldsOf(value);
    for (const [field, inner] of Object.entries(value)) namedIn(inner, hasIds(field), found);
  }
  return found;
}
