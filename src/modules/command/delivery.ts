// Delivers responses: to the caller alone, or as messages of what responds, on which filters of the room decide before.
import { type Actor, hasScope } from "@/core/actor.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { InteractionResponse, Responder } from "@/core/interaction/interaction.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import {
  type FilteredMessage,
  filterUpdate,
  type MessageContent,
  type MessageFilter,
  type MessageSender,
  type MessageService,
  type MessageUpdate,
  sendContext,
} from "@/modules/message/mod.ts";
import type { RoomAccess, RoomGrant } from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction } from "@/ports/store.ts";
import type { Response } from "./schema.ts";
import type { InteractionRow } from "./store.ts";

/** A response that can be delivered. */
export type Given = Exclude<InteractionResponse, { kind: "accepted" }>;
/** A response with what filters of the room made of its message. */
export type Filtered = { given: Given; message?: Pick<FilteredMessage, "text" | "metadata"> };

type Deps = {
  identity: Pick<IdentityService, "subject">;
  roomAccess: Pick<RoomAccess, "find">;
  sender: Pick<MessageSender, "send">;
  messages: Pick<MessageService, "read" | "update">;
  filter: MessageFilter;
};

export class ResponseDelivery {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Asks the filters of the room, outside of the transaction that delivers. Throws what the responder receives. */
  async filter(row: InteractionRow, responder: Responder, given: Given): Promise<Filtered> {
    const { filter, messages } = this.#deps;
    const { tenant_id: tenantId, room_id: roomId } = row;
    if (given.kind === "ephemeral" || !filter.appliesTo(tenantId, roomId)) return { given };
    const context = await this.#contextOf(row, responder);
    if (given.kind === "message") {
      const threadId = row.thread_root_id ?? undefined;
      const { text, metadata } = await filter.apply<FilteredMessage>(context, roomId, { ...given, threadId });
      return { given, message: { text, metadata } };
    }
    const update = updateOf(row, given);
    const { text, metadata } = await filterUpdate(filter, context, await messages.read(context, update.id), update);
    return { given, message: { text, metadata } };
  }

  /** Part of the transaction that ends the interaction. */
  async deliver(
    tx: AnyTransaction,
    row: InteractionRow,
    responder: Responder,
    { given, message: filtered }: Filtered,
    clientMessageId = row.id,
  ): Promise<Response> {
    const { sender, messages } = this.#deps;
    if (given.kind === "ephemeral") {
      await this.#assertCallerSees(row, tx.db);
      return { format: "markdown", ...given };
    }
    const context = await this.#contextOf(row, responder, tx.db);
    if (given.kind === "update") {
      const update = { ...updateOf(row, given), ...filtered };
      await messages.update({ ...context, operation: "message.update" }, update);
      return { kind: "message", messageId: update.id };
    }
    const { text, format, elements } = given;
    const content: MessageContent = {
      roomId: row.room_id,
      text,
      format: format ?? "markdown",
      type: "text",
      ...row.thread_root_id === null ? {} : { threadId: row.thread_root_id },
      mentions: { principalIds: [], room: false },
      clientMessageId,
      metadata: {},
      elements,
    };
    const allowed = { ...content, text: filtered?.text ?? text, metadata: filtered?.metadata ?? {} };
    const { message } = await sender.send(context, allowed, content);
    return { kind: "message", messageId: message.id };
  }

  /** Throws unless what responds is in the room: its messages, with their elements, stay there when it leaves. */
  async assertResponderIsMember(row: InteractionRow, db: AnyDatabase): Promise<void> {
    const grant = await this.#grantOf(row, row.responder_id, db);
    if ((grant?.role ?? null) === null) throw new Fault("gone", "The sender of the message has left the room");
  }

  /** It may be about the room, which the caller may have left since. */
  async #assertCallerSees(row: InteractionRow, db: AnyDatabase): Promise<void> {
    const grant = await this.#grantOf(row, row.caller_id, db);
    if (grant === undefined) throw new Fault("gone", "The caller can no longer see the room");
  }

  /** Access to the room of an interaction as it is now. */
  async #grantOf(row: InteractionRow, principalId: string, db: AnyDatabase): Promise<RoomGrant | undefined> {
    const { identity, roomAccess } = this.#deps;
    return await roomAccess.find(await identity.subject(row.tenant_id, principalId, db), row.room_id, db);
  }

  /** What responds, as the sender of a message. */
  async #contextOf(row: InteractionRow, responder: Responder, db?: AnyDatabase): Promise<Context> {
    const subject = await this.#deps.identity.subject(row.tenant_id, responder.principalId, db);
    const actor: Actor = {
      ...subject,
      displayName: responder.principalId,
      scopes: responder.scopes,
      tokenId: undefined,
      expiresAt: undefined,
    };
    const context = sendContext(actor, row.id);
    const { scope } = context.access;
    if (!hasScope(actor, scope)) throw new Fault("scope_missing", `The responding principal lacks the scope ${scope}`);
    return context;
  }
}

function updateOf(
  { message_id: id }: InteractionRow,
  { text, format, elements }: Extract<Given, { kind: "update" }>,
): MessageUpdate {
  if (id === null) throw invalidField("/response", "only an action can update a message");
  return { id, text, format, elements };
}
