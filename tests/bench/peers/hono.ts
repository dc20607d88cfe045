// Bare Hono on Deno: parses a body, answers JSON, does nothing else.
import { Hono } from "@hono/hono";

const app = new Hono();
app.get("/v1/rooms/:id", (context) => context.json({ id: context.req.param("id"), name: "Bench 0" }));
app.post("/v1/messages", async (context) => {
  const { text } = await context.req.json();
  return context.json({ id: "1", text }, 201);
});
Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen: () => {} }, app.fetch);
