// Parents of imported tasks: in a tree of the room, within its depth and size, read once for many tasks.
import { DEPTH_MAX, TREE_MAX } from "../schema.ts";
import type { TaskStore } from "../store.ts";
import type { TaskRow } from "../tables.ts";
import { descendants } from "../tree.ts";

type TreePosition = { rootId: string; depth: number };

export class ImportedTrees {
  readonly #tasks: TaskStore;
  readonly #positions = new Map<string, TreePosition>();
  readonly #sizes = new Map<string, number>();

  constructor(tasks: TaskStore) {
    this.#tasks = tasks;
  }

  /** Whether a new task may lie right under this one; if so it counts from now on. */
  async tryAddUnder(id: string, parent: TaskRow): Promise<boolean> {
    const { rootId, depth } = await this.#locate(parent);
    const size = this.#sizes.get(rootId) ?? 1;
    if (depth + 1 > DEPTH_MAX || size + 1 > TREE_MAX) return false;
    this.#sizes.set(rootId, size + 1);
    this.#positions.set(id, { rootId, depth: depth + 1 });
    return true;
  }

  /** A new task that lies under none. */
  addRoot(id: string): void {
    this.#positions.set(id, { rootId: id, depth: 1 });
    this.#sizes.set(id, 1);
  }

  async #locate(task: TaskRow): Promise<TreePosition> {
    const known = this.#positions.get(task.id);
    if (known !== undefined) return known;
    let root = task;
    let depth = 1;
    for (; root.parent_id !== null && depth <= DEPTH_MAX; depth++) {
      const above = await this.#tasks.find(root.tenant_id, root.parent_id);
      if (above === undefined) break;
      root = above;
    }
    const position = { rootId: root.id, depth };
    this.#positions.set(task.id, position);
    if (!this.#sizes.has(root.id)) this.#sizes.set(root.id, (await descendants(this.#tasks, root)).rows.length + 1);
    return position;
  }
}
