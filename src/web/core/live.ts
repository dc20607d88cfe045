// The connection to `/ws`: one subscription a room, recovered by position after an interruption.
import { Centrifuge, type Subscription } from "centrifuge";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { addressOf, get } from "./api.ts";
import type { LiveEvent, StreamPosition, Sync } from "./resources.ts";
import { endSession, token } from "./session.ts";

type ConnectionState = "connecting" | "connected" | "disconnected";
type Listener = (event: LiveEvent, channel: string) => void;
export type Published = Parameters<Listener>;

/** Close codes after which this token is not accepted again. */
const ENDED_CODES = [3500, 3503, 3005];
/** With this one, the SDK itself disconnects when the token expires. */
const EXPIRED_CODE = 1;

/** In more rooms than this, presence is read when a room is opened. */
const JOINS_MAX = 50;
const READ_AGAIN_MS = 300;

export const connection = signal<ConnectionState>("disconnected");
/** Counts events that were missed for good: what was read before must be read again. */
export const generation = signal(0);

const listeners = new Set<Listener>();
const subscriptions = new Map<string, Subscription>();
let client: Centrifuge | undefined;

/** Calls `listener` with every event; returns a function that ends this. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What `read` resolves to, and the events that came meanwhile: it may be older than they are. */
export async function readAmidEvents<Result>(read: () => Promise<Result>): Promise<[Result, Published[]]> {
  const missed: Published[] = [];
  const end = onEvent((...published) => void missed.push(published));
  try {
    return [await read(), missed];
  } finally {
    end();
  }
}

/**
 * Calls `read` when a view opens, when events were missed for good, and soon after events that concern the view; with the next
 * connection if there was none.
 */
export function useLive(
  read: () => void,
  concerns: (event: LiveEvent, channel: string) => boolean,
  inputs: readonly unknown[] = [],
): void {
  const isConnected = connection.value === "connected";
  const isStale = useRef(false);
  useEffect(() => {
    if (isConnected && isStale.current) read();
    isStale.current = !isConnected;
  }, [isConnected]);
  useEffect(() => {
    read();
    isStale.current = connection.peek() !== "connected";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = onEvent((event, channel) => {
      if (!concerns(event, channel)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        read();
      }, READ_AGAIN_MS);
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [...inputs, generation.value]);
}

/** Connects, and calls `onSync` with the state from which events continue, and those that came while it was read. */
export function connect(onSync: (sync: Sync, missed: readonly Published[]) => void): void {
  // Such as the run of an agent, or a call.
  const others = [...subscriptions.keys()].filter((channel) => !channel.startsWith("room:"));
  disconnect();
  const opened = new Centrifuge(addressOf("ws").replace(/^http/, "ws"), { token: token.value, minReconnectDelay: 300 });
  client = opened;
  client.on("state", ({ newState }) => {
    connection.value = newState;
  });
  client.on("publication", ({ channel, data }) => publish(data, channel));
  client.on("disconnected", ({ code, reason }) => {
    if (code === EXPIRED_CODE) endSession();
    else if (ENDED_CODES.includes(code)) endSession(`Your session has ended: ${reason}.`);
  });
  client.on("subscribed", ({ wasRecovering, recovered }) => {
    if (wasRecovering && !recovered) generation.value++;
  });
  client.connect();
  // Not after what is read: another connection may have replaced this one by then.
  for (const channel of others) follow({ channel });
  let isRead = false;
  const read = async (): Promise<void> => {
    if (isRead || client !== opened) return;
    isRead = true;
    try {
      const [sync, missed] = await readAmidEvents(() =>
        get<Sync>("v1/collaboration/sync", { include: ["lastMessage"] })
      );
      // The connection that has replaced this one starts from a newer state.
      if (client !== opened) return;
      onSync(sync, missed);
      for (const position of sync.positions) follow(position);
    } catch {
      // Read again after the next connection, or in a moment.
      isRead = false;
      setTimeout(read, 2000);
    }
  };
  client.on("connected", () => void read());
}

export function disconnect(): void {
  client?.disconnect();
  client = undefined;
  subscriptions.clear();
  connection.value = "disconnected";
}

/** Connects at once, without waiting for the next attempt. */
export function reconnect(): void {
  client?.disconnect();
  client?.connect();
}

/** Subscribes to a channel, from a position if there is one. */
export function follow(
  { channel, epoch, offset }: Partial<StreamPosition> & { channel: string },
): Subscription | undefined {
  if (client === undefined || channel.startsWith("principal:")) return undefined;
  const existing = subscriptions.get(channel);
  if (existing !== undefined) return existing;
  const since = epoch === undefined || offset === undefined ? {} : { since: { epoch, offset } };
  const subscription = client.newSubscription(channel, { ...since, joinLeave: subscriptions.size < JOINS_MAX });
  subscription.on("publication", ({ data }) => publish(data, channel));
  subscription.on("join", ({ info }) => publish(presenceEvent("join", info.user), channel));
  subscription.on("leave", ({ info }) => publish(presenceEvent("leave", info.user), channel));
  subscription.on("subscribed", ({ wasRecovering, recovered }) => {
    if (wasRecovering && !recovered) generation.value++;
  });
  subscription.subscribe();
  subscriptions.set(channel, subscription);
  return subscription;
}

export function unfollow(channel: string): void {
  const subscription = subscriptions.get(channel);
  if (subscription === undefined) return;
  subscriptions.delete(channel);
  subscription.unsubscribe();
  client?.removeSubscription(subscription);
}

/** Publishes something that is not stored, such as typing; without a connection it is dropped. */
export function publishEphemeral(channel: string, type: string, data: unknown): void {
  // Not stored anyway.
  subscriptions.get(channel)?.publish({ type, data }).catch(() => undefined);
}

/** Principals that are connected and subscribed to a channel. */
export async function presentIn(channel: string): Promise<string[]> {
  const subscription = subscriptions.get(channel);
  if (subscription === undefined) return [];
  const { clients } = await subscription.presence();
  return [...new Set(Object.values(clients).map(({ user }) => user))];
}

function publish(event: LiveEvent, channel: string): void {
  for (const listener of listeners) listener(event, channel);
}

function presenceEvent(change: "join" | "leave", id: string): LiveEvent {
  return { type: `presence.${change}`, at: new Date().toISOString(), actor: null, data: { principalId: id } };
}
