// Which events a reader may receive: from which position on, and of which types. All that leaves the log is filtered here.
import { type Actor, hasScope } from "../actor.ts";
import type { EventType, StoredEvent } from "./event.ts";

/**
 * The type of a redacted event of any stream. It is part of the protocol, documented with the events of messages: clients skip it
 * and advance their offset.
 */
export const REDACTED_TYPE = "message.hidden";

/** Whether events of a type may be received. */
export type EventFilter = (type: string) => boolean;

/** What a reader may receive of a stream. */
export type EventView = {
  /** Events about positions up to here are hidden. */
  hiddenUpTo: number;
  /** Absent where the reader may receive every type. */
  filter?: EventFilter | undefined;
};

/** Finds the types that a token may receive, by the scope that each type declares. */
export type EventFilterOf = (actor: Actor) => EventFilter | undefined;

/** Reads the declarations at first use, since modules are constructed later. */
export function createEventFilter(types: () => readonly EventType[]): EventFilterOf {
  let scopes: ReadonlyMap<string, string> | undefined;
  return (actor) => {
    const known = scopes ??= new Map(types().map(({ type, scope }) => [type, scope]));
    const received = new Set([...new Set(known.values())].filter((scope) => hasScope(actor, scope)));
    if (received.size === new Set(known.values()).size) return undefined;
    // A type that no module declares is only for tokens that may receive everything.
    return (type) => type === REDACTED_TYPE || received.has(known.get(type) ?? "");
  };
}

/** Whether the event is hidden from a reader: it concerns a hidden position, or its type needs a scope that the token lacks. */
export function isHidden({ effect, type }: Pick<StoredEvent, "effect" | "type">, view: EventView): boolean {
  if (effect?.kind === "concerns" && effect.seq <= view.hiddenUpTo) return true;
  return view.filter !== undefined && !view.filter(type);
}

/** The event without its content: readers from whom it is hidden still receive its position, so their stream has no gap. */
export function redact(event: StoredEvent): StoredEvent {
  const { id, at } = JSON.parse(event.json);
  return {
    ...event,
    type: REDACTED_TYPE,
    json: JSON.stringify({ id, type: REDACTED_TYPE, at, actor: null, data: {} }),
  };
}

/** The event as a reader receives it. */
export function redactFor(event: StoredEvent, view: EventView): StoredEvent {
  return isHidden(event, view) ? redact(event) : event;
}
