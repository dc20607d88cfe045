// The least that sends a run's text to those who watch it: bare WebSockets of the runtime, and the same frame for each of a
// channel. Nothing is checked, queued or stored.

/** As often as the gateway publishes what a run has said. */
const PUBLISH_MS = 100;
const data = {
  runId: "run_0198f3a0c0de7000800000000000beef",
  step: 0,
  offset: 1234,
  text: "word1 word2 word3 word4 word5 ",
};
const event = { type: "run.delta", at: new Date(0).toISOString(), actor: { id: "prn_agent", kind: "agent" }, data };

const channels = new Map<string, Set<WebSocket>>();

Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen() {} }, (request) => {
  if (request.headers.get("upgrade") !== "websocket") return new Response("OK");
  const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
  socket.onmessage = ({ data }) => {
    const [, channel] = /"channel":"([^"]*)"/.exec(data) ?? [];
    if (channel === undefined) return;
    const sockets = channels.get(channel) ?? openChannel(channel);
    sockets.add(socket);
    socket.send('{"id":2,"subscribe":{}}');
  };
  return response;
});

function openChannel(channel: string): Set<WebSocket> {
  const sockets = new Set<WebSocket>();
  channels.set(channel, sockets);
  setInterval(() => {
    const frame = JSON.stringify({ push: { channel, pub: { data: event } } });
    for (const socket of sockets) socket.send(frame);
  }, PUBLISH_MS);
  return sockets;
}
