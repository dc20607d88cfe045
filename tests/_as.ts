import { asyncapiDocument } from "@/transport/ws/asyncapi.ts";
import { openGateway } from "./harness.ts";
await using g = await openGateway();
const t = performance.now();
const text = asyncapiDocument({ modules: g.app.modules, version: "1" });
console.error(performance.now()-t, text.length);
await Deno.writeTextFile("/tmp/as.json", text);
