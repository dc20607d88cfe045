// What becomes of the tables when a person is erased.
import { type PrincipalErasure, WORK_OF_ROOM } from "@/core/erasure.ts";

/** Events are work of their rooms, or of those who attend them. */
export const calendarErasure = (
  purge: (tenantId: string, principalId: string, ids: readonly string[]) => Promise<number>,
): PrincipalErasure => ({
  calendar_event: {
    key: ["id"],
    reads: ["room_id"],
    removal: {
      of: "created_by",
      isContent: true,
      applies: ({ room_id }) => room_id === null,
      run: ({ tenantId, principalId }, rows) => purge(tenantId, principalId, rows.map(({ id }) => String(id))),
    },
    renames: [
      "created_by",
      // As in `calendarOf`.
      {
        column: "calendar",
        text: (id, { room_id }) => room_id === null ? `principal:${id}` : `room:${room_id}/${id}`,
      },
    ],
    keeps: { title: WORK_OF_ROOM, description: WORK_OF_ROOM, location: WORK_OF_ROOM, uid: "identifies the event" },
  },
  calendar_attendee: {
    key: ["event_id", "position"],
    renames: ["principal_id"],
    clears: [{ of: ["principal_id"], set: { email: null, comment: null } }],
  },
  calendar_rsvp: {
    key: ["event_id", "principal_id", "occurrence"],
    renames: ["principal_id"],
    clears: [{ of: ["principal_id"], set: { comment: null } }],
  },
  calendar_override: { key: ["event_id", "occurrence"], json: ["patch_json"] },
  calendar_feed: { key: ["id"], deletes: ["principal_id"], keeps: { name: "deleted with the feed of its principal" } },
  calendar_import: {
    key: ["id"],
    deletes: ["principal_id"],
    keeps: { text: "deleted with the import of its principal", report_json: "as the text" },
  },
});
