// Bare Hono on Deno: parses a body, returns the JSON that the gateway returns, does nothing else. ROOM and MESSAGE are that JSON.
import { Hono } from "@hono/hono";

const room = JSON.parse(Deno.env.get("ROOM") ?? "{}");
const message = JSON.parse(Deno.env.get("MESSAGE") ?? "{}");
const app = new Hono();
app.get("/v1/rooms/:id", (context) => context.json({ ...room, id: context.req.param("id") }));
app.post("/v1/messages", async (context) => {
  const { roomId, text } = await context.req.json();
  return context.json({ ...message, roomId, text }, 201);
});
Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen: () => {} }, app.fetch);
