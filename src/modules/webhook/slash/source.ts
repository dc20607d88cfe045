// Runs a command by calling its endpoint, as Slack and Mattermost do: a form out, a text or JSON back within three seconds.
import type { Clock } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type {
  CommandCall,
  CommandSource,
  InteractionResponse,
  OfferedCommand,
} from "@/core/interaction/interaction.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import type { Store } from "@/ports/store.ts";
import { hookScopes } from "../hook_principal.ts";
import type { Secrets } from "../secrets.ts";
import { signedHeaders } from "../signature.ts";
import type { SlashCommandAccess } from "./access.ts";
import { type CommandResponse, readResponse, RESPONSE_MAX_BYTES } from "./response.ts";
import type { LateResponses } from "./late_responses.ts";
import { SLASH_COMMANDS_PER_ROOM } from "./schema.ts";
import { SlashCommandStore, type SlashCommandTables } from "./store.ts";

const RESPONSE_TIMEOUT_MS = 3000;
/** The response follows. */
const ACCEPTED = 202;

type Deps = {
  store: Store<SlashCommandTables>;
  clock: Clock;
  outbound: Outbound;
  secrets: Secrets;
  access: SlashCommandAccess;
  late: LateResponses;
};

export class SlashCommandSource implements CommandSource {
  readonly kind = "webhook";
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(tenantId: string, roomId: string): Promise<OfferedCommand[]> {
    const commands = new SlashCommandStore(this.#deps.store.db);
    const rows = await commands.list(tenantId, roomId, undefined, SLASH_COMMANDS_PER_ROOM);
    return rows.map((row) => ({
      name: row.name,
      description: row.description,
      sourceId: row.id,
      sourceName: row.display_name,
      fields: [],
      responder: { principalId: row.principal_id, scopes: hookScopes(row) },
    }));
  }

  async run(call: CommandCall): Promise<InteractionResponse> {
    const { secrets, outbound, clock, access, late } = this.#deps;
    const row = await access.findAllowed(call.tenantId, call.command.sourceId);
    if (row === undefined) {
      throw new Fault("command_failed", "The principal responsible for the command may not post in the room");
    }
    const signing = secrets.of(row, clock.now());
    if (signing === undefined) throw new Fault("command_failed", "The secret of the command cannot be read");
    const responseUrl = late.urlOf(row, call.id);
    const body = new URLSearchParams({
      command: `/${row.name}`,
      text: call.text,
      team_id: call.tenantId,
      channel_id: call.roomId,
      user_id: call.callerId,
      user_name: call.callerName,
      trigger_id: call.id,
      ...responseUrl === undefined ? {} : { response_url: responseUrl },
    }).toString();
    const timestamp = Math.floor(clock.now() / 1000);
    try {
      const response = await outbound(row.url, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          accept: "application/json, text/plain",
          ...signedHeaders(signing, { id: call.id, timestamp, body }),
        },
        signal: call.signal,
      }, { totalMs: RESPONSE_TIMEOUT_MS, bodyMaxBytes: RESPONSE_MAX_BYTES });
      const text = await response.text();
      if (response.status === ACCEPTED && responseUrl !== undefined) return { kind: "accepted" };
      if (response.ok) return responseOf(response.headers.get("content-type") ?? "", text, row.name);
      throw new Fault("command_failed", `The endpoint of the command returned ${response.status}`);
    } catch (cause) {
      if (!(cause instanceof OutboundError)) throw cause;
      throw new Fault("command_failed", `The endpoint of the command failed: ${cause.code}`, { cause });
    }
  }
}

/** A response without a text says that the command was received. */
function responseOf(type: string, raw: string, name: string): CommandResponse {
  try {
    const reply = readResponse(type, raw);
    return reply.text === "" ? { kind: "ephemeral", text: `/${name} was received.` } : reply;
  } catch (cause) {
    if (cause instanceof Fault) {
      throw new Fault("command_failed", `The endpoint of the command responded with too much: ${cause.message}`);
    }
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new Fault("command_failed", "The endpoint of the command responded with invalid JSON", { cause });
  }
}
