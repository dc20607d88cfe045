// Actions: a reader uses a button, a select or a form of a message, and its sender responds.
import type { Element } from "@/core/interaction/element.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { checkValues, type FormValues } from "@/core/interaction/form.ts";
import type { ActionTarget, Responder } from "@/core/interaction/interaction.ts";
import type { Module } from "@/core/module.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Message } from "@/modules/message/mod.ts";
import type { Draft, Interactions } from "./interactions.ts";
import type { ActionInvoke, InteractionResult } from "./schema.ts";

type Deps = {
  /** Complete once everything is built. */
  modules: readonly Module[];
  interactions: Interactions;
  identity: IdentityService;
  readMessage: (context: Context, id: string) => Promise<Message>;
};
type Given = { value: string | undefined; values: FormValues };

export class ActionService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async invoke(context: Context, input: ActionInvoke): Promise<InteractionResult> {
    const { interactions, readMessage } = this.#deps;
    const message = await readMessage(context, input.id);
    const element = message.elements?.find(({ id }) => id === input.elementId);
    if (element === undefined) throw notFound("element of the message");
    const given = valuesOf(element, input);
    const { responder, target } = await this.#find(context, message);
    const { elementId, clientMessageId } = input;
    const draft: Draft = {
      roomId: message.roomId,
      kind: "action",
      source: target?.kind ?? "principal",
      name: elementId,
      messageId: message.id,
      responder,
      threadId: message.threadId ?? undefined,
      clientMessageId,
      content: { messageId: message.id, elementId, ...given },
    };
    if (target === undefined) draft.event = eventOf(context, message, input, given, responder);
    return await interactions.run(
      context,
      draft,
      async (interaction) =>
        await target?.invoke({
          ...interaction,
          responderId: responder.principalId,
          messageId: message.id,
          elementId,
          ...given,
        }) ?? { kind: "accepted" },
    );
  }

  /** What responds for the sender; without a target it receives an event. */
  async #find(
    { actor: { tenantId } }: Context,
    { senderId, senderKind }: Message,
  ): Promise<{ responder: Responder; target?: ActionTarget }> {
    for (const { actions: target } of this.#deps.modules) {
      const responder = await target?.find(tenantId, senderId);
      if (target !== undefined && responder !== undefined) return { responder, target };
    }
    const isEnabled = (await this.#deps.identity.findEnabled(tenantId, [senderId])).has(senderId);
    // An archive may have elements of people.
    if (!isEnabled || senderKind === "human") {
      throw new Fault("gone", "The sender of the message does not accept actions");
    }
    return { responder: { principalId: senderId } };
  }
}

/** What is sent with the action; throws where the input does not fit the element. */
function valuesOf(element: Element, { value, values }: ActionInvoke): Given {
  if (element.kind === "link") throw Fault.forField("/elementId", "not_interactive", "a link has no action");
  if (value !== undefined && element.kind !== "select") {
    throw Fault.forField("/value", "unexpected", "only for a select");
  }
  if (values !== undefined && element.kind !== "form") throw Fault.forField("/values", "unexpected", "only for a form");
  if (element.kind === "button") return { value: element.value, values: {} };
  if (element.kind === "form") {
    return { value: undefined, values: checkValues(element.fields, values ?? {}, "/values") };
  }
  if (!element.options.some((option) => option.value === value)) {
    throw Fault.forField("/value", "invalid_value", "expected one of the options");
  }
  return { value, values: {} };
}

function eventOf(
  { actor }: Context,
  message: Message,
  { elementId }: ActionInvoke,
  { value, values }: Given,
  { principalId }: Responder,
): NonNullable<Draft["event"]> {
  return ({ id, expiresAt }) =>
    principalEvent(actor, principalId, "action.invoked", {
      id,
      roomId: message.roomId,
      messageId: message.id,
      elementId,
      value: value ?? null,
      values,
      callerId: actor.principalId,
      expiresAt,
    });
}
