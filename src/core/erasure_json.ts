// A person in JSON: where it has ids of principals, and what describes it beside them.

/** A person whose id is being replaced by that of a pseudonym, everywhere. */
export type ErasedPerson = {
  tenantId: string;
  principalId: string;
  pseudonymId: string;
  /** Direct rooms have it in their names. */
  displayName: string;
  /** Whether what the person wrote is deleted as well, or stays under the pseudonym. */
  deletesContent: boolean;
};

/** Name of everybody who was erased. */
export const DELETED_NAME = "Deleted user";

/** Fields whose text is an id. A value elsewhere that happens to be the same text is no reference. */
const ID_FIELD = /(?:^id|Ids?|By|_ids?|_by)$/;
const PERSON_FIELDS = ["actor", "user", "owner", "principal", "author", "client", "sub", "added", "removed"];
/** Fields of an object that has the person's id, which describe it; events of earlier versions have a `timezone`. */
const DESCRIBING_FIELDS = ["avatarFileId", "externalId", "timeZone", "timezone", "locale", "email"];
const DEVICE_FIELD = "deviceId";
/** The comment of a response to an event. */
const COMMENT_FIELD = "comment";
/** What an import left out: texts that begin with ids and names. */
const EXAMPLES_FIELD = "examples";
const NAME_FIELDS = ["displayName", "senderName", "actorName"];
/** The values of a field that changed, in an object that has its name as `field`. */
const CHANGE_FIELDS = ["from", "to"];

/** Fields that name who wrote the `text` beside them. */
const AUTHOR_FIELDS = ["authorId", "speakerId"];

/**
 * The text of a JSON value with the person replaced by the pseudonym, and without what describes the person; the same text if it has
 * neither.
 */
export function replaceInJson(text: unknown, person: ErasedPerson, hasOnlyIds: boolean): unknown {
  if (typeof text !== "string" || !textsOf(person).some((part) => text.includes(part))) return text;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Responses that are stored for repeated requests may be no JSON.
    return text;
  }
  const replaced = replace(value, person, hasOnlyIds);
  return replaced === value ? text : JSON.stringify(replaced);
}

/** The same in a value that was parsed. */
export function replaceIn(value: unknown, person: ErasedPerson): unknown {
  return replace(value, person, false);
}

/** What of the person JSON may have; JSON without both has nothing of the person. */
export function textsOf({ principalId, displayName }: ErasedPerson): string[] {
  return [principalId, displayName].map((text) => JSON.stringify(text).slice(1, -1));
}

/** The same value, not a copy, where nothing changes. `isId`: texts here are ids. */
function replace(value: unknown, person: ErasedPerson, isId: boolean): unknown {
  if (typeof value === "string") return isId && value === person.principalId ? person.pseudonymId : value;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map((item) => replace(item, person, isId));
    return items.every((item, at) => item === value[at]) ? value : items;
  }
  return replaceInObject(value as Record<string, unknown>, person, isId);
}

function replaceInObject(value: Record<string, unknown>, person: ErasedPerson, isId: boolean): unknown {
  const describes = value.principalId === person.principalId || value.id === person.principalId;
  const isText = person.deletesContent && AUTHOR_FIELDS.some((field) => value[field] === person.principalId);
  const hasIds = idFieldsOf(value);
  let isChanged = false;
  const entries = Object.entries(value).map(([field, before]) => {
    const name = field === person.principalId ? person.pseudonymId : field;
    const after = describes && isDescription(field, before)
      ? described(field, before, person)
      : isText && field === "text" && typeof before === "string"
      ? ""
      : field === "name" && value.kind === "direct" && typeof before === "string"
      ? before.replaceAll(person.displayName, DELETED_NAME)
      : field === EXAMPLES_FIELD && Array.isArray(before)
      ? withoutExamples(before, person)
      : replace(before, person, hasIds(field) || (isId && !Array.isArray(before)));
    isChanged ||= name !== field || after !== before;
    return [name, after] as const;
  });
  return isChanged ? Object.fromEntries(entries) : value;
}

function withoutExamples(examples: readonly unknown[], { principalId, displayName }: ErasedPerson): readonly unknown[] {
  const names = (text: unknown): boolean =>
    typeof text === "string" && (text.includes(principalId) || text.includes(displayName));
  return examples.some(names) ? examples.map((text) => names(text) ? DELETED_NAME : text) : examples;
}

/** Whether the texts of a field are ids, of principals among others. */
export function namesPrincipal(field: string): boolean {
  return ID_FIELD.test(field) || PERSON_FIELDS.includes(field);
}

/** Which fields of an object have such ids: also the values of one of them that changed. */
export function idFieldsOf({ field: changed }: Record<string, unknown>): (field: string) => boolean {
  const hasIds = typeof changed === "string" && namesPrincipal(changed);
  return (field) => namesPrincipal(field) || (hasIds && CHANGE_FIELDS.includes(field));
}

/** The status of a principal is an object, that of other resources a word; a comment on a document is an object. */
function isDescription(field: string, value: unknown): boolean {
  return DESCRIBING_FIELDS.includes(field) || NAME_FIELDS.includes(field) || field === "handle" ||
    field === DEVICE_FIELD ||
    (field === "status" && typeof value === "object") || (field === COMMENT_FIELD && typeof value === "string");
}

function described(field: string, before: unknown, { pseudonymId }: ErasedPerson): unknown {
  if (before === null || before === undefined) return before;
  if (NAME_FIELDS.includes(field)) return DELETED_NAME;
  if (field === DEVICE_FIELD) return "";
  return field === "handle" ? pseudonymId : null;
}
