// How latencies grow with what is stored: send, history page and recovery at 10^4, 10^5 and 10^6 messages.
import { Gateway } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import { median, type Row } from "./report.ts";

const SIZES = [10_000, 100_000, 1_000_000];
const SAMPLES = 200;
/** Older ones may be trimmed meanwhile. */
const EVENTS_KEPT = 50_000;

type Latencies = Record<"send" | "history page" | "event page" | "search", number>;

export async function rows(sizes: readonly number[] = SIZES): Promise<Row[]> {
  const gateway = await Gateway.start();
  const roomIds = await gateway.rooms(8);
  const generator = new LoadGenerator();
  const { server, token } = gateway;
  await generator.request({ kind: "open", dialect: "sender", bases: [server.url], sockets: 64, token, rooms: roomIds });
  let stored = 0;
  const at = new Map<number, Latencies>();
  for (const size of sizes) {
    while (stored < size) {
      const { sends } = await generator.request({ kind: "flood", seconds: 2, bytes: 200, senders: 64, inFlight: 16 });
      stored += sends;
    }
    at.set(size, await latencies(gateway, roomIds[0] ?? ""));
  }
  await generator.stop();
  await server.stop();
  const [first = 0] = sizes;
  return sizes.slice(1).flatMap((size) =>
    (["send", "history page", "event page", "search"] as const).map((what): Row => ({
      what: `${what} at ${size} messages`,
      unit: "ms",
      peer: `at ${first}`,
      ours: [at.get(size)?.[what] ?? NaN],
      theirs: [at.get(first)?.[what] ?? NaN],
      isLowerBetter: true,
    }))
  );
}

async function latencies(gateway: Gateway, roomId: string): Promise<Latencies> {
  const { lastSeq } = await gateway.call("GET", `/v1/rooms/${roomId}`);
  const anywhere = (from = 1): number => from + Math.floor(Math.random() * (lastSeq - 100 - from));
  const floor = Math.max(1, lastSeq - EVENTS_KEPT);
  return {
    "send": await sample(() => gateway.call("POST", "/v1/messages", { roomId, text: "one more" })),
    "history page": await sample(() =>
      gateway.call("GET", `/v1/messages?roomId=${roomId}&before=${anywhere()}&limit=50`)
    ),
    "event page": await sample(() =>
      gateway.call("GET", `/v1/rooms/${roomId}/events?after=${anywhere(floor)}&limit=100`)
    ),
    "search": await sample(() => gateway.call("GET", `/v1/search?q=more&roomId=${roomId}`), 10),
  };
}

async function sample(call: () => Promise<unknown>, count = SAMPLES): Promise<number> {
  const took: number[] = [];
  for (let done = 0; done < count; done++) {
    const startedAt = performance.now();
    await call();
    took.push(performance.now() - startedAt);
  }
  return median(took);
}
