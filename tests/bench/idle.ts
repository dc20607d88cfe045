// Memory of idle sockets, each authenticated and subscribed to one room, and one message to all of them.
import { pause } from "../wait.ts";
import { Gateway } from "./gateway.ts";
import { LoadGenerator } from "./load_generator.ts";
import type { Row } from "./report.ts";

const BUDGET_KIB = 45;

export async function idle(sockets: number): Promise<Row[]> {
  const gateway = await Gateway.start();
  const rooms = await gateway.rooms(1);
  const { server, token } = gateway;
  const generator = new LoadGenerator();
  const empty = server.residentKib();
  await generator.request({ kind: "open", dialect: "gateway", bases: [server.url], sockets, token, rooms });
  await pause(3000);
  const perSocket = (server.residentKib() - empty) / sockets;
  const { deliveries } = await generator.request({ kind: "steady", bytes: 200, perSecond: 1, seconds: 1 });
  await generator.stop();
  await server.stop();
  if (deliveries !== sockets) throw new Error(`${deliveries} of ${sockets} sockets heard the message`);
  return [{
    what: `Memory of an idle socket, ${sockets} held`,
    unit: "KiB",
    peer: "budget",
    ours: [perSocket],
    theirs: [BUDGET_KIB],
    isLowerBetter: true,
    goal: 1,
  }];
}
