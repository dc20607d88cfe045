// socket.io as a chat server keeps it in memory: one room, a broadcast and an acknowledgement per send. RECOVERY=1 switches
// its own recovery of a lost connection on, which keeps every packet and costs memory.
import { createServer } from "node:http";
import process from "node:process";
import { Server } from "npm:socket.io@4.8.4";

const http = createServer();
const recovery = process.env.RECOVERY === "1" ? { connectionStateRecovery: {} } : {};
const io = new Server(http, { transports: ["websocket"], perMessageDeflate: false, ...recovery });
io.on("connection", (socket) => {
  socket.join("room");
  socket.on("send", (message, acknowledge) => {
    io.to("room").emit("message", message);
    acknowledge?.({ ok: true });
  });
});
http.listen(Number(process.env.PORT), "127.0.0.1");
