// The configuration of agents in archives: that of all in the export of a tenant, of members in the export of a room. Their runs are
// not exported, and they have no secrets.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import { inChunks, paginate } from "@/core/page.ts";
import { RoomStore, type RoomTables } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { presentSettings } from "../settings.ts";
import { AgentStore, type NamedAgentRow } from "../store.ts";
import type { AgentTables } from "../tables.ts";
import { agentImporter, importedAgent } from "./import.ts";

const BATCH = 100;

type Tables = AgentTables & RoomTables;

export function agentArchive(store: Store<Tables>): ArchiveSection<Transaction<Tables>> {
  const agents = new AgentStore(store.db);
  const rooms = new RoomStore(store.db);
  return {
    description: {
      exported:
        "agents with their settings (`agent`), without their runs; in the export of a room those that are members, " +
        "with instructions only for who owns the agent",
      imported:
        "Imported agents are paused; their schedules are on behalf of who resumes them. Who imports them owns those " +
        "whose owner is unknown.",
    },
    counts: { agents: "Settings of agents" },
    skipCodes: { not_an_agent: "each_run", schedule_invalid: "once" },
    async *exportRoom(context, roomId) {
      // In the export of a tenant they follow all rooms.
      if (!context.isRoomOnly) return;
      for (const ids of inChunks(await rooms.memberIds(context.tenantId, roomId), BATCH)) {
        const rows = await agents.findMany(context.tenantId, ids);
        yield* exportAgents(context, rows, (row) => roomSettings(context, roomId, row));
      }
    },
    async *exportPersonal(context) {
      const read = (last?: NamedAgentRow) => agents.listAll(context.tenantId, last?.id ?? "", BATCH);
      for await (const rows of paginate(BATCH, read)) yield* exportAgents(context, rows, presentSettings);
    },
    createImporter: (context) => agentImporter(context),
  };
}

async function* exportAgents(
  context: ExportContext,
  rows: readonly NamedAgentRow[],
  settingsOf: (row: NamedAgentRow) => object,
): AsyncGenerator<unknown[]> {
  if (rows.length === 0) return;
  yield await context.principalRecords(rows.flatMap((row) => [row.id, row.created_by]));
  context.recordExported(rows.map(({ id }) => importedAgent(id)));
  context.count("agents", rows.length);
  yield rows.map((row) => ({
    type: "agent",
    id: row.id,
    ...settingsOf(row),
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }));
}

/** What the owner of a room may know: instructions and schedules of others' agents are hidden, and so are other rooms. */
function roomSettings({ requestedBy }: ExportContext, roomId: string, row: NamedAgentRow): object {
  const { instructions, schedule, ...settings } = presentSettings(row);
  const isOwn = row.owner_id === requestedBy;
  return {
    ...settings,
    instructions: isOwn ? instructions : null,
    schedule: isOwn && schedule?.roomId === roomId ? schedule : null,
  };
}
