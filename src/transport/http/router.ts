// Hono's own router, cut to the first match: one handler answers a request, so Hono need not compose a chain of them.
import type { Result, Router } from "@hono/hono/router";
import { RegExpRouter } from "@hono/hono/router/reg-exp-router";
import { SmartRouter } from "@hono/hono/router/smart-router";
import { TrieRouter } from "@hono/hono/router/trie-router";

/** The method that all routes are added under: which ones a path takes is told where the path was found. */
export const ROUTED_AS = "GET";

/** The first route added that matches is the one that answers. */
export class FirstMatchRouter<T> implements Router<T> {
  readonly name = "FirstMatchRouter";
  readonly #inner = new SmartRouter<T>({ routers: [new RegExpRouter(), new TrieRouter()] });

  add(method: string, path: string, handler: T): void {
    this.#inner.add(method, path, handler);
  }

  match(_method: string, path: string): Result<T> {
    const result = this.#inner.match(ROUTED_AS, path);
    if (result[0].length <= 1) return result;
    // Both shapes of a result start with the matches, in the order in which they were added.
    return [result[0].slice(0, 1), ...result.slice(1)] as Result<T>;
  }
}
