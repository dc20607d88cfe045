// Responses that follow the call of an endpoint, at the `response_url` that it was given: some, for a while, as with Slack.
import { chargeTo } from "@/core/caller.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { readBytes } from "@/core/http/request.ts";
import type { WriteBudget } from "@/core/limit/write_budget.ts";
import type { Interactions } from "@/modules/command/mod.ts";
import { hookActor, runCharged } from "../hook_principal.ts";
import { type CommandResponse, readResponse, RESPONSE_MAX_BYTES } from "./response.ts";
import type { SlashCommandAccess } from "./access.ts";
import { LATE_RESPONSE_PATH } from "./schema.ts";
import type { SlashCommandRow } from "./store.ts";

const TOKEN_MAX_CHARS = 1000;
/** What tokens are encrypted as. */
const PURPOSE = "response";

type Deps = {
  cpu: CpuBudget;
  writeBudget: WriteBudget;
  encryptor: Encryptor;
  interactions: Pick<Interactions, "respondLate">;
  access: SlashCommandAccess;
  /** Where endpoints reach the gateway; `undefined` where it does not know its address. */
  baseUrl: string | undefined;
};

export class LateResponses {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The address for responses to one call; `undefined` where the gateway does not know its own. */
  urlOf({ tenant_id, id }: SlashCommandRow, interactionId: string): string | undefined {
    const { baseUrl, encryptor } = this.#deps;
    if (baseUrl === undefined) return undefined;
    const token = encryptor.encrypt(JSON.stringify([tenant_id, id, interactionId]), PURPOSE);
    return `${baseUrl}${LATE_RESPONSE_PATH}/${token}`;
  }

  /** Delivers what an endpoint posts, while the command is there and may post in the room. */
  async receive(token: string, request: Request): Promise<void> {
    const { interactions, access } = this.#deps;
    const { tenantId, commandId, interactionId } = this.#read(token);
    const row = await access.findAllowed(tenantId, commandId);
    if (row === undefined) throw notFound("command");
    const actor = hookActor(row);
    await runCharged(this.#deps, actor, async (account) => {
      const tooLarge = () =>
        new Fault("payload_too_large", `The request body is larger than ${RESPONSE_MAX_BYTES} bytes`);
      const bytes = await readBytes(request, RESPONSE_MAX_BYTES, tooLarge, { account });
      await chargeTo(account, async () => {
        const reply = account.measure(() => read(request.headers, bytes));
        await interactions.respondLate({ tenantId, id: interactionId }, actor, reply);
      });
    });
  }

  #read(token: string): { tenantId: string; commandId: string; interactionId: string } {
    const text = token.length > TOKEN_MAX_CHARS ? undefined : this.#deps.encryptor.decrypt(token, PURPOSE);
    if (text === undefined) throw notFound("command that was run");
    const [tenantId, commandId, interactionId] = JSON.parse(text);
    return { tenantId, commandId, interactionId };
  }
}

/** JSON, also where its sender does not say so, or a text. */
function read(headers: Headers, bytes: Uint8Array): CommandResponse {
  const raw = new TextDecoder().decode(bytes);
  const type = raw.trimStart().startsWith("{") ? "json" : headers.get("content-type") ?? "";
  let reply: CommandResponse;
  try {
    reply = readResponse(type, raw);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new Fault("invalid_json", "The body is neither valid JSON nor a text", { cause });
  }
  if (reply.text === "") throw Fault.forField("/text", "missing", "expected a text, attachments or blocks");
  return reply;
}
