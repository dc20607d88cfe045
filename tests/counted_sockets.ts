// Sockets of clients that keep them to themselves: one that closes is an open resource until its peer has answered.
import { until } from "./wait.ts";

// deno-lint-ignore no-explicit-any -- of the runtime or of a package
type SocketClass = new (...args: any[]) => { addEventListener(type: "close", listener: () => void): void };

/** The class, of which a test can wait until all are closed. */
export function countSockets<Base extends SocketClass>(Base: Base): { Socket: Base; untilClosed(): Promise<void> } {
  let open = 0;
  class CountedSocket extends Base {
    // deno-lint-ignore no-explicit-any -- mixins are declared like this
    constructor(...args: any[]) {
      super(...args);
      open++;
      this.addEventListener("close", () => open--);
    }
  }
  return { Socket: CountedSocket, untilClosed: () => until(() => open === 0, "every socket is closed") };
}
