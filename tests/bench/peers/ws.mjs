// npm `ws` as the plainest server there is: a set of sockets and a loop.
import process from "node:process";
import { WebSocketServer } from "npm:ws@8.23.0";

const room = new Set();
const server = new WebSocketServer({ port: Number(process.env.PORT), host: "127.0.0.1", perMessageDeflate: false });
server.on("connection", (socket) => {
  socket.on("close", () => room.delete(socket));
  socket.on("message", (data) => {
    const text = String(data);
    if (text === "join") {
      room.add(socket);
      socket.send("joined");
      return;
    }
    const { text: body } = JSON.parse(text);
    const frame = JSON.stringify({ text: body });
    for (const other of room) other.send(frame);
    socket.send("ack");
  });
});
