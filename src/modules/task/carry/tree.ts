// Where tasks that come in may hang: in a tree of the room, within its depth and size, looked up once for many of them.
import { DEPTH_MAX, TREE_MAX } from "../schema.ts";
import type { TaskStore } from "../store.ts";
import type { TaskRow } from "../tables.ts";
import { descendants } from "../tree.ts";

type Place = { rootId: string; depth: number };

export class Trees {
  readonly #tasks: TaskStore;
  readonly #places = new Map<string, Place>();
  readonly #sizes = new Map<string, number>();

  constructor(tasks: TaskStore) {
    this.#tasks = tasks;
  }

  /** Whether a new task may lie right under this one; if so it counts from now on. */
  async hang(id: string, parent: TaskRow): Promise<boolean> {
    const { rootId, depth } = await this.#place(parent);
    const size = this.#sizes.get(rootId) ?? 1;
    if (depth + 1 > DEPTH_MAX || size + 1 > TREE_MAX) return false;
    this.#sizes.set(rootId, size + 1);
    this.#places.set(id, { rootId, depth: depth + 1 });
    return true;
  }

  /** A new task that lies under none. */
  plant(id: string): void {
    this.#places.set(id, { rootId: id, depth: 1 });
    this.#sizes.set(id, 1);
  }

  async #place(task: TaskRow): Promise<Place> {
    const known = this.#places.get(task.id);
    if (known !== undefined) return known;
    let root = task;
    let depth = 1;
    for (; root.parent_id !== null && depth <= DEPTH_MAX; depth++) {
      const above = await this.#tasks.find(root.tenant_id, root.parent_id);
      if (above === undefined) break;
      root = above;
    }
    const place = { rootId: root.id, depth };
    this.#places.set(task.id, place);
    if (!this.#sizes.has(root.id)) {
      this.#sizes.set(root.id, (await descendants(this.#tasks, root)).rows.length + 1);
    }
    return place;
  }
}
