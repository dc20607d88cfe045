// Clients that send now and then, each in a room of its own: what they wait for their acknowledgements.
import type { ClientsReport, ClientsRequest } from "./honest_clients.ts";
import { type Gateway, SECRET } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import { benchToken } from "./token.ts";

export const CLIENTS = 50;
/** One send of each client a second. */
const PER_SECOND = CLIENTS;

export class Crowd implements AsyncDisposable {
  readonly #clients = new LoadGenerator<ClientsRequest, ClientsReport>("./honest_clients.ts");

  private constructor() {}

  static async open(gateway: Gateway): Promise<Crowd> {
    const crowd = new Crowd();
    try {
      await crowd.#clients.request({ kind: "open", base: gateway.server.url, members: await createMembers(gateway) });
      await crowd.#clients.request({ kind: "run", seconds: 3, perSecond: PER_SECOND });
    } catch (error) {
      await crowd[Symbol.asyncDispose]();
      throw error;
    }
    return crowd;
  }

  /** The p99 of their acknowledgements in ms. Throws if a send is refused or lost. */
  async measure(seconds: number): Promise<number> {
    const report = await this.#clients.request({ kind: "run", seconds, perSecond: PER_SECOND });
    if (report.refused > 0 || report.lost > 0) throw new Error(`sends failed: ${JSON.stringify(report)}`);
    return report.acknowledgement.p99;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#clients.stop();
  }
}

/** Each has a room of its own. */
async function createMembers(gateway: Gateway): Promise<{ token: string; room: string }[]> {
  return await Promise.all(Array.from({ length: CLIENTS }, async (_, n) => {
    const token = await benchToken(SECRET, `client${n}`);
    const { id: room } = await gateway.call("POST", "/v1/rooms", { name: `Room ${n}` }, token);
    return { token, room };
  }));
}
