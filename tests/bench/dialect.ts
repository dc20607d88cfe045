// How to talk to each server of the comparison with as little work in the generator as possible: raw frames, no SDK.

/** How one server joins a room, and how its messages differ from other frames. */
export type Dialect = {
  name: string;
  socketUrl(base: string): string;
  /** What to send once the socket is open, in order; each waits for one frame from the server first when `afterFrame`. */
  hello(member: number): { text: string; afterFrame: boolean }[];
  /** The frame that shows that the member is in the room. */
  isJoined(frame: string): boolean;
  /** Messages of the room in a frame. */
  count(frame: string): number;
  /** The response to a server's ping, if this frame is one. */
  pong(frame: string): string | undefined;
  /** Sends one message of `text` to the room over this socket. */
  send(id: number, text: string, member: number): string;
  /** What separates several sends in one frame; absent = one send a frame. */
  joiner?: string;
  /** How many sends a frame acknowledges. */
  acknowledges(frame: string): number;
};

const MARK = "sent@";

/** The text of a message: when it was sent, padded to `bytes`. */
export function createTimedText(bytes: number): string {
  const text = `${MARK}${performance.timeOrigin + performance.now()} `;
  return text + "x".repeat(Math.max(0, bytes - text.length));
}

/** When the newest message in a frame was sent. */
export function sentAtOf(frame: string): number {
  const at = frame.lastIndexOf(MARK) + MARK.length;
  return Number(frame.slice(at, frame.indexOf(" ", at)));
}

/** Occurrences of a text that every message has exactly once. */
export function countOccurrences(frame: string, needle: string): number {
  let count = 0;
  for (let at = frame.indexOf(needle); at >= 0; at = frame.indexOf(needle, at + needle.length)) count++;
  return count;
}

/** Counts the lines that begin like this: to find the few ends of lines is cheaper than to look through a long line. */
function linesWith(start: string): (frame: string) => number {
  const inner = `\n${start}`;
  return (frame) => (frame.startsWith(start) ? 1 : 0) + countOccurrences(frame, inner);
}

const pushes = linesWith('{"push":');
const replies = linesWith('{"id":');
const pings = linesWith("{}");

/** The gateway, by the Centrifuge protocol. `token` is the same for everybody; `roomOf` names a member's room. */
export function gatewayDialect(token: string, roomOf: (member: number) => string): Dialect {
  return {
    name: "gateway",
    socketUrl: (base) => `${base.replace("http", "ws")}/ws`,
    hello: (member) => [{
      text: `{"id":1,"connect":{"token":"${token}"}}\n{"id":2,"subscribe":{"channel":"room:${roomOf(member)}"}}`,
      afterFrame: false,
    }],
    isJoined: (frame) => frame.includes('"id":2,"subscribe"'),
    count: pushes,
    // A ping may share its frame with replies.
    pong: (frame) => pings(frame) > 0 ? "{}" : undefined,
    send: (id, text, member) =>
      `{"id":${id},"rpc":{"method":"message.send","data":{"roomId":"${roomOf(member)}","text":"${text}"}}}`,
    joiner: "\n",
    acknowledges: (frame) => replies(frame) > 0 ? countOccurrences(frame, '"rpc":{"data"') : 0,
  };
}

/** The gateway again, from members that only send: no subscription, so nothing is fanned out. */
export function senderDialect(token: string, roomOf: (member: number) => string): Dialect {
  return {
    ...gatewayDialect(token, roomOf),
    name: "sender",
    hello: () => [{ text: `{"id":1,"connect":{"token":"${token}"}}`, afterFrame: false }],
    isJoined: (frame) => frame.includes('"id":1,"connect"'),
  };
}

/** The gateway again, from those who watch runs: `runOf` names the run of each. */
export function watcherDialect(token: string, runOf: (member: number) => string): Dialect {
  return {
    ...gatewayDialect(token, runOf),
    name: "watcher",
    hello: (member) => [{
      text: `{"id":1,"connect":{"token":"${token}"}}\n{"id":2,"subscribe":{"channel":"run:${runOf(member)}"}}`,
      afterFrame: false,
    }],
  };
}

/** socket.io over WebSocket (Engine.IO 4); the peer's server puts everybody into one room. */
export const socketIoDialect: Dialect = {
  name: "socket.io",
  socketUrl: (base) => `${base.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`,
  hello: () => [{ text: "40", afterFrame: true }],
  isJoined: (frame) => frame.startsWith("40"),
  count: (frame) => frame.startsWith('42["message"') ? 1 : 0,
  pong: (frame) => frame === "2" ? "3" : undefined,
  send: (id, text) => `42${id}["send",${JSON.stringify({ text })}]`,
  acknowledges: (frame) => frame.startsWith("43") ? 1 : 0,
};

/** Plain `ws`, with a loop over the clients of the room. */
export const wsDialect: Dialect = {
  name: "ws",
  socketUrl: (base) => base.replace("http", "ws"),
  hello: () => [{ text: "join", afterFrame: false }],
  isJoined: (frame) => frame === "joined",
  count: (frame) => frame.startsWith('{"text"') ? 1 : 0,
  pong: () => undefined,
  send: (_id, text) => JSON.stringify({ text }),
  acknowledges: (frame) => frame === "ack" ? 1 : 0,
};
