// Tasks as searchables: indexed fields, and tasks as search results.
import type { RowSelection } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { presentTask } from "./presenter.ts";
import { Task } from "./schema.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";

export const SEARCH_KIND = "task";

export class TaskSearchable implements Searchable {
  readonly kind = SEARCH_KIND;
  readonly scope = "task.read";
  readonly item = Task;
  readonly #deps: { store: Store<TaskTables>; clock: Clock };

  constructor(deps: { store: Store<TaskTables>; clock: Clock }) {
    this.#deps = deps;
  }

  async load({ tenantId }: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const rows = await new TaskStore(this.#deps.store.db).findUndeleted(tenantId, { ids });
    const now = this.#deps.clock.now();
    return new Map(rows.map((row) => [row.id, { fields: fieldsOf(row), item: presentTask(row, now) }]));
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly SearchEntry[]> {
    return (await new TaskStore(db).findUndeleted(tenantId, which)).map(searchEntryOf);
  }
}

export function searchEntryOf(row: TaskRow): SearchEntry {
  return {
    tenantId: row.tenant_id,
    kind: SEARCH_KIND,
    id: row.id,
    roomId: row.room_id,
    authorId: row.created_by,
    at: row.created_at,
    version: row.version,
    texts: Object.values(fieldsOf(row)),
  };
}

function fieldsOf(row: TaskRow): Record<string, string> {
  return { key: row.key, title: row.title, text: row.description ?? "" };
}
