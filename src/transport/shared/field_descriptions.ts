// Common descriptions of fields, for the schemas of the documents.

/** Descriptions by field name; a description in the schema has precedence. */
const FIELDS: Readonly<Record<string, string>> = {
  at: "When it happened",
  clientMessageId: "Id chosen by the sender; a repeated send returns the first message",
  createdAt: "When it was created",
  createdBy: "Principal that created it",
  data: "Payload of the event; its shape depends on `type`, see `/asyncapi.json`",
  deletedAt: "When it was deleted; null if it is not deleted",
  detail: "Human-readable explanation",
  displayName: "Display name",
  documentId: "Id of the document",
  editedAt: "When the content was last edited",
  epoch: "Id of the stream's numbering; changes when the stream is reset",
  expiresAt: "End time",
  failure: "Why it failed; null if it did not fail",
  finishedAt: "When the work ended; null before",
  format: "Format of the content",
  generation: "Generation of the live document; discard local copies of any other generation",
  hasMore: "Whether there is a next page",
  items: "Results, in order",
  joinedAt: "When the principal joined",
  kind: "Only this kind",
  lastReadSeq: "Position up to which the caller has read",
  limit: "Maximum number of results on the page",
  metadata: "JSON object for the application's own use; stored and returned unchanged",
  nextCursor: "`cursor` of the next page; null on the last page",
  participantId: "Id of the participant",
  principalId: "Id of the principal",
  readAt: "When it was marked as read; null if unread",
  requestedBy: "Principal that requested it",
  revision: "Revision of the content; increases with every change",
  role: "Only this role",
  roomId: "Id of the room",
  seq: "Position in the stream; increases by one with each event",
  sort: "Sort order; a leading `-` reverses it",
  startedAt: "Start time; null before",
  state: "Only this state",
  threadId: "Id of the root message of the thread",
  updatedAt: "When it was last changed",
  updatedSince: "Only resources changed at or after this time",
  version: "Increases by one with every change of the resource; the ETag of the response is derived from it",
};

/** The description of a field without its own. `noun`: what the schema describes. */
export function describeField(name: string, noun: string): string | undefined {
  return name === "id" ? `Id of the ${noun}` : FIELDS[name];
}
