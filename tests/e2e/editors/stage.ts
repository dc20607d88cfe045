// What the tests of editors share, so that it is started once: the pages of all editors, a browser, and the gateway. That is two
// nodes, of which each person has one, where there are servers for them; else one on SQLite.
import type { Browser } from "npm:playwright-core@1.65.1";
import { launchBrowser } from "../../browser.ts";
import { Cluster, hasServers } from "../../fault/cluster.ts";
import { Balancer } from "./balancer.ts";
import { EditorHost } from "./host.ts";

export const PATH = "/v1/collaboration/documents";
export const PEOPLE = ["ada", "bob"] as const;
export type Person = (typeof PEOPLE)[number];

export class Stage implements AsyncDisposable {
  readonly host: EditorHost;
  readonly browser: Browser;
  readonly cluster: Cluster;
  readonly balancers: Readonly<Record<Person, Balancer>>;
  readonly roomId: string;
  /** The node that receives calls. */
  node: number;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    parts: { host: EditorHost; browser: Browser; cluster: Cluster; roomId: string },
    stack: AsyncDisposableStack,
  ) {
    const { host, browser, cluster, roomId } = parts;
    this.host = host;
    this.browser = browser;
    this.cluster = cluster;
    this.roomId = roomId;
    this.node = cluster.nodes.length - 1;
    const balancer = (node: number): Balancer => stack.use(new Balancer(cluster.node(node).port));
    this.balancers = { ada: balancer(0), bob: balancer(this.node) };
    this.#stack = stack;
  }

  static async open(editors: readonly string[]): Promise<Stage> {
    const stack = new AsyncDisposableStack();
    try {
      const host = stack.use(new EditorHost(editors));
      const options = {
        environment: { SVC_CORS_ALLOW_ORIGINS: host.origin },
        claims: { bot: { kind: "agent", owner: "ada" } },
      };
      const [browser, cluster] = await Promise.all([
        launchBrowser().then((one) => stack.adopt(one, () => one.close())),
        (hasServers ? Cluster.openShared(options) : Cluster.openSingle(options)).then((one) => stack.use(one)),
      ]);
      // An agent exists only after its owner.
      await cluster.call(0, "ada", "GET", "/v1/collaboration/me");
      const roomId = await cluster.createRoom([...PEOPLE, "bot"]);
      return new Stage({ host, browser, cluster, roomId }, stack);
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  /** One call of the API; throws unless it responds 2xx. */
  // deno-lint-ignore no-explicit-any -- tests look into bodies of every shape
  call(sub: string, method: string, path: string, body?: unknown): Promise<any> {
    return this.cluster.call(this.node, sub, method, path, body);
  }

  /** Kills these nodes, as a failure of power does. */
  async kill(...nodes: number[]): Promise<void> {
    await Promise.all(nodes.map((node) => this.cluster.node(node).stop("SIGKILL")));
  }

  /** From now on, these people reach this node. */
  pointTo(node: number, people: readonly Person[] = PEOPLE): void {
    for (const person of people) this.balancers[person].pointTo(this.cluster.node(node).port);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}
