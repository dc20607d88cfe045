// Skills for agents, disclosed step by step: names and descriptions with the tools, the body and files when they are called.
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { AgentTool, ToolCall, ToolSource } from "@/modules/agent/mod.ts";
import type { Store } from "@/ports/store.ts";
import { SkillStore, type SkillTables, type SkillVersionRow } from "./store.ts";
import { type Frontmatter, MANIFEST } from "./validation.ts";

const READ = "skill_read";
const FILE = "skill_file";
/** Skills that a description lists; their descriptions are part of every prompt. */
const LISTED_MAX = 30;
const DESCRIPTION_MAX = 300;
/** Most characters of a file that a model reads at once. */
const FILE_MAX_CHARS = 24_000;

type Deps = { store: Store<SkillTables>; metrics: Metrics };

export class SkillTools implements ToolSource {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The tools of an agent that has skills: attached to it or to the room, and approved. */
  async toolsOf(
    tenantId: string,
    agentId: string,
    _names: readonly string[],
    roomId: string,
  ): Promise<readonly AgentTool[]> {
    const readable = await this.#readable(tenantId, agentId, roomId);
    if (readable.length === 0) return [];
    const lines = readable.slice(0, LISTED_MAX).map(({ skill_name, frontmatter_json }) => {
      const { description }: Frontmatter = JSON.parse(frontmatter_json);
      return `- ${skill_name}: ${description.slice(0, DESCRIPTION_MAX)}`;
    });
    const name = { type: "string", description: "Name of the skill" };
    return [{
      name: READ,
      description: ["Read the instructions of a skill before you do what it is for. Skills:", ...lines].join("\n"),
      inputSchema: { type: "object", properties: { name }, required: ["name"] },
      isIdempotent: true,
      needsApproval: false,
      call: (call) => this.#read(call, MANIFEST),
    }, {
      name: FILE,
      description: "Read a file that the instructions of a skill name",
      inputSchema: { type: "object", properties: { name, path: { type: "string" } }, required: ["name", "path"] },
      isIdempotent: true,
      needsApproval: false,
      call: (call) => this.#read(call, String(call.input["path"] ?? "")),
    }];
  }

  patternsOf(): readonly string[] {
    return [READ, FILE];
  }

  /** Reads what may be read now, not when the tools were listed. */
  async #read({ tenantId, agentId, roomId, input }: ToolCall, path: string): Promise<string> {
    const name = String(input["name"] ?? "");
    const version = (await this.#readable(tenantId, agentId, roomId)).find(({ skill_name }) => skill_name === name);
    if (version === undefined) throw new Fault("not_found", "There is no such skill, or it is not approved");
    const skills = new SkillStore(this.#deps.store.db);
    const file = await skills.file(tenantId, name, version.digest, path);
    if (file === undefined) {
      const files = await skills.files(tenantId, name, version.digest);
      throw new Fault("not_found", `The skill has no such file; it has ${files.map((one) => one.path).join(", ")}`);
    }
    this.#deps.metrics.skillReads.inc();
    if (file.encoding === "base64") return `${path} is not a text (${file.size} bytes)`;
    return file.content.length <= FILE_MAX_CHARS
      ? file.content
      : `${file.content.slice(0, FILE_MAX_CHARS)}\n… (${file.size} bytes in all)`;
  }

  /** One version of each skill: that of the agent, else that of the room. */
  async #readable(tenantId: string, agentId: string, roomId: string): Promise<SkillVersionRow[]> {
    const rows = await new SkillStore(this.#deps.store.db).readable(tenantId, agentId, roomId);
    return rows.filter((row, n) => rows[n - 1]?.skill_name !== row.skill_name);
  }
}
