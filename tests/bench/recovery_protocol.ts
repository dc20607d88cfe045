// How a client of each server recovers: what it must have stored, and what it must send. Raw frames, no SDK.
import { benchToken } from "./token.ts";

/** What a client stored of its last connection, in its server's own terms. */
// deno-lint-ignore no-explicit-any -- positions and session ids of either protocol
export type RecoveryState = any;

/** One server's way of being returned to. */
export type RecoveryProtocol = {
  socketUrl(base: string): string;
  /** What to send, once the server has said something first when `afterFrame`. */
  hello(member: number, place: RecoveryState | undefined): { text: string; afterFrame: boolean };
  /** Whether the frame shows that the client is in the room. */
  isJoined(frame: string): boolean;
  /** What to keep of a connection, from all its frames. */
  recoveryState(frames: readonly string[]): RecoveryState;
  /** The texts of the room's messages in all frames of a connection, in order; throws where the server lost its place. */
  texts(frames: readonly string[]): string[];
  pong(frame: string): string | undefined;
  send(id: number, text: string): string;
  isAcknowledgement(frame: string): boolean;
};

/** The gateway; everybody is a principal of their own, and comes back for what concerns the principal as well. */
export async function createGatewayRecovery(
  secret: string,
  roomId: string,
  members: number,
): Promise<RecoveryProtocol> {
  const sender = await benchToken(secret, "bench");
  const tokens = await Promise.all(
    Array.from({ length: members }, (_, member) => benchToken(secret, `p${member}`, { role: "member" })),
  );
  const channel = `room:${roomId}`;
  return {
    socketUrl: (base) => `${base.replace("http", "ws")}/ws`,
    hello: (member, place) => {
      const connect = { token: tokens[member] ?? sender, ...(place === undefined ? {} : { subs: place.subs }) };
      const subscribe = { channel, ...place?.room };
      return {
        text: `${JSON.stringify({ id: 1, connect })}\n${JSON.stringify({ id: 2, subscribe })}`,
        afterFrame: false,
      };
    },
    isJoined: (frame) => frame.includes('"id":2,"subscribe"'),
    recoveryState: (frames) => {
      const replies = parseFrames(frames);
      const { subs } = replies.find(({ id }) => id === 1).connect;
      const { epoch, offset, publications = [] } = replies.find(({ id }) => id === 2).subscribe;
      const pushed = replies.findLast(({ push }) => push?.channel === channel && push.pub !== undefined)?.push.pub;
      const last = (pushed ?? publications.at(-1))?.offset ?? offset;
      const own = Object.entries<RecoveryState>(subs).map((
        [name, { epoch, offset }],
      ) => [name, { recover: true, epoch, offset }]);
      return { subs: Object.fromEntries(own), room: { recover: true, epoch, offset: last } };
    },
    texts: (frames) => {
      const replies = parseFrames(frames);
      const { subscribe } = replies.find(({ id }) => id === 2);
      if (subscribe.recovered !== true) throw new Error("the gateway did not recover a client");
      const pushed = replies.flatMap(({ push }) =>
        push?.channel === channel && push.pub !== undefined ? [push.pub] : []
      );
      return [...subscribe.publications ?? [], ...pushed].map(({ data, offset }, at) => {
        if (offset !== subscribe.offset + 1 + at) throw new Error(`offset ${offset} is not ${at + 1} after the last`);
        return data.data.message.text;
      });
    },
    pong: (frame) => frame === "{}" ? "{}" : undefined,
    send: (id, text) => JSON.stringify({ id, rpc: { method: "message.send", data: { roomId, text } } }),
    isAcknowledgement: (frame) => frame.includes('"rpc":{"data"'),
  };
}

/** socket.io: a private session id from the connect packet, and the offset that each event ends with. */
export const socketIoRecovery: RecoveryProtocol = {
  socketUrl: (base) => `${base.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`,
  hello: (_member, place) => ({ text: `40${place === undefined ? "" : JSON.stringify(place)}`, afterFrame: true }),
  isJoined: (frame) => frame.startsWith("40"),
  recoveryState: (frames) => ({
    pid: JSON.parse(frames.find((frame) => frame.startsWith("40"))?.slice(2) ?? "{}").pid,
    offset: JSON.parse(frames.findLast(isMessage)?.slice(2) ?? "[]").at(-1),
  }),
  texts: (frames) => frames.filter(isMessage).map((frame) => JSON.parse(frame.slice(2))[1].text),
  pong: (frame) => frame === "2" ? "3" : undefined,
  send: (id, text) => `42${id}["send",${JSON.stringify({ text })}]`,
  isAcknowledgement: (frame) => frame.startsWith("43"),
};

function isMessage(frame: string): boolean {
  return frame.startsWith('42["message"');
}

function parseFrames(frames: readonly string[]): RecoveryState[] {
  return frames.flatMap((frame) => frame.split("\n").map((line) => JSON.parse(line)));
}
