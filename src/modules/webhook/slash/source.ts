// Runs a command by calling its endpoint, as Slack and Mattermost do: a form out, a text or JSON back within three seconds.
import type { Clock } from "@/core/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import type { CommandCall, CommandSource, InteractionResponse, OfferedCommand } from "@/core/interaction.ts";
import { isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { isDeeperThan, JSON_DEPTH_MAX, truncateCodePoints } from "@/core/text.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import type { Store } from "@/ports/store.ts";
import { slackText } from "../incoming/formats/slack.ts";
import { at } from "../incoming/value.ts";
import { signaturesOf } from "../signature.ts";
import { SLASH_COMMANDS_PER_ROOM } from "./schema.ts";
import { contextOf } from "./service.ts";
import { type SlashCommandRow, SlashCommandStore, type SlashCommandTables } from "./store.ts";

const ANSWER_MS = 3000;
const ANSWER_MAX_BYTES = 64 * 1024;
const TEXT_MAX = 15_000;

type Deps = {
  store: Store<SlashCommandTables>;
  clock: Clock;
  outbound: Outbound;
  encryptor: Encryptor;
  identity: Pick<IdentityService, "findEnabled" | "subject">;
  roomAccess: Pick<RoomAccess, "find">;
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
      responder: { principalId: row.principal_id },
    }));
  }

  async run(call: CommandCall): Promise<InteractionResponse> {
    const { store, encryptor, outbound, clock } = this.#deps;
    const row = await new SlashCommandStore(store.db).find(call.tenantId, call.command.sourceId);
    if (row === undefined || !await this.#isAllowed(row)) {
      throw new Fault("command_failed", "The principal responsible for the command may not post in the room");
    }
    const secret = encryptor.decrypt(row.secret_encrypted, contextOf(row.tenant_id, row.id));
    if (secret === undefined) throw new Fault("command_failed", "The secret of the command cannot be read");
    const body = new URLSearchParams({
      command: `/${row.name}`,
      text: call.text,
      team_id: call.tenantId,
      channel_id: call.roomId,
      user_id: call.callerId,
      user_name: call.callerName,
      trigger_id: call.id,
    }).toString();
    const timestamp = Math.floor(clock.now() / 1000);
    try {
      const response = await outbound(row.url, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          accept: "application/json, text/plain",
          "webhook-id": call.id,
          "webhook-timestamp": String(timestamp),
          "webhook-signature": signaturesOf([secret], { id: call.id, timestamp, body }),
        },
        ...(call.signal === undefined ? {} : { signal: call.signal }),
      }, { totalMs: ANSWER_MS, bodyMaxBytes: ANSWER_MAX_BYTES });
      const text = await response.text();
      if (response.ok) return answerOf(response.headers.get("content-type") ?? "", text, row.name);
      throw new Fault("command_failed", `The endpoint of the command returned ${response.status}`);
    } catch (cause) {
      if (!(cause instanceof OutboundError)) throw cause;
      throw new Fault("command_failed", `The endpoint of the command failed: ${cause.code}`, { cause });
    }
  }

  /** Whether the principal responsible for the command may still post in the room. */
  async #isAllowed(row: SlashCommandRow): Promise<boolean> {
    const { identity, roomAccess } = this.#deps;
    const ids = [row.responsible_id, row.principal_id];
    const enabled = await identity.findEnabled(row.tenant_id, ids);
    if (ids.some((id) => !enabled.has(id))) return false;
    const grant = await roomAccess.find(await identity.subject(row.tenant_id, row.responsible_id), row.room_id);
    return grant !== undefined && isAtLeast(ROOM_ROLES, grant.role ?? "observer", "member");
  }
}

/** `response_type: "in_channel"` is a message to the room; all else is for the caller alone. */
function answerOf(type: string, text: string, name: string): InteractionResponse {
  const isJson = type.slice(0, 200).includes("json");
  const body = isJson ? parseJson(text) : undefined;
  const said = isJson ? slackText(body).text : text;
  const safe = truncateCodePoints(said.replaceAll("\0", "").toWellFormed().trim(), TEXT_MAX);
  if (safe === "") return { kind: "ephemeral", text: `/${name} was received.` };
  return { kind: at(body, "response_type") === "in_channel" ? "message" : "ephemeral", text: safe };
}

function parseJson(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    if (isDeeperThan(text, JSON_DEPTH_MAX)) throw new SyntaxError("too deep");
    return JSON.parse(text);
  } catch (cause) {
    throw new Fault("command_failed", "The endpoint of the command returned with JSON that is not valid", { cause });
  }
}
