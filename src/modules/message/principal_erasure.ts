// What becomes of the tables when a person is erased.
import { type PrincipalErasure, type Row, WRITTEN } from "@/core/erasure.ts";
import type { ScheduledService } from "./scheduled/service.ts";
import type { MessageTombstones } from "./tombstone.ts";

/** What of rows has the ids of messages. */
const idsOf = (rows: readonly Row[]): string[] => rows.map(({ id }) => String(id));

/** Messages are deleted as by their author, and scheduled ones are cancelled. */
export const messageErasure = (
  tombstones: Pick<MessageTombstones, "replaceMany">,
  scheduled: Pick<ScheduledService, "cancelMany">,
): PrincipalErasure => ({
  message: {
    key: ["id"],
    reads: ["deleted_at"],
    removal: {
      of: "sender_id",
      isContent: true,
      applies: ({ deleted_at }) => deleted_at === null,
      run: ({ tenantId }, rows) => tombstones.replaceMany(tenantId, idsOf(rows)),
    },
    renames: ["sender_id"],
    json: ["mentions_json", "metadata_json", "elements_json"],
    keeps: {
      text: WRITTEN,
      files_json: "names of what was shared, as the text",
      client_message_id: "chosen at random by clients",
    },
  },
  message_edit: { key: ["message_id", "version"], renames: ["editor_id"], keeps: { text: WRITTEN } },
  mention: { key: ["room_id", "principal_id", "seq"], deletes: ["principal_id"] },
  reaction: { key: ["message_id", "key", "principal_id"], renames: ["principal_id"] },
  thread_participant: { key: ["message_id", "principal_id"], deletes: ["principal_id"] },
  scheduled_message: {
    key: ["id"],
    deletes: ["sender_id"],
    removal: { of: "sender_id", run: ({ tenantId }, rows) => scheduled.cancelMany(tenantId, idsOf(rows)) },
    json: ["message_json", "given_json", "failure_json"],
    keeps: { client_message_id: "as of messages" },
  },
});
