// Hono's own router, cut to the first match: one handler answers a request, so Hono need not compose a chain of them.
import type { Result, Router } from "@hono/hono/router";
import { RegExpRouter } from "@hono/hono/router/reg-exp-router";
import { SmartRouter } from "@hono/hono/router/smart-router";
import { TrieRouter } from "@hono/hono/router/trie-router";

/** Methods that a route can have; Hono's tables are plain objects, where other names may find what is no route. */
export const ROUTED_METHODS: readonly string[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** The first route added that matches is the one that answers. */
export class FirstMatchRouter<T> implements Router<T> {
  readonly name = "FirstMatchRouter";
  readonly #inner = new SmartRouter<T>({ routers: [new RegExpRouter(), new TrieRouter()] });

  add(method: string, path: string, handler: T): void {
    this.#inner.add(method, path, handler);
  }

  match(method: string, path: string): Result<T> {
    if (!ROUTED_METHODS.includes(method)) return [[], []];
    const result = this.#inner.match(method, path);
    if (result[0].length <= 1) return result;
    // Both shapes of a result start with the matches, in the order in which they were added.
    return [result[0].slice(0, 1), ...result.slice(1)] as Result<T>;
  }
}
