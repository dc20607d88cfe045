// The worker that renders one text; whoever started it ends it.
import { type Order, render } from "./rendering.ts";

/** What a worker's global scope has and a window's has not. */
type Scope = {
  onmessage: (event: MessageEvent<Order>) => void;
  postMessage(message: unknown): void;
};
// The types of the program are those of a window, for all of it.
const scope = self as unknown as Scope;

scope.onmessage = async ({ data }) => scope.postMessage(await render(data));
