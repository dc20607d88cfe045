import { RedisConnection } from "@/adapters/redis.ts"; import { ownRedis } from "./conformance/redis_server.ts";
const s = await ownRedis();
for (let d=0; d<60; d++) { 
  const c=new RedisConnection(s.url); await c.tried; await s.stop(); await new Promise(r=>setTimeout(r,20)); await s.start();
  await new Promise(r=>setTimeout(r,d));
  const st=c.client.status; const t=performance.now();
  const ok=await Promise.race([c.close().then(()=>"closed"), new Promise(r=>setTimeout(()=>r("HUNG"),3000))]);
  if (ok!=="closed"|| performance.now()-t>20) console.log(d, st, ok, c.client.status, performance.now()-t);
}
for (let d=0; d<10; d++) { const c=new RedisConnection(s.url); await new Promise(r=>setTimeout(r,d)); const st=c.client.status;const t=performance.now(); const ok=await Promise.race([c.close().then(()=>"closed"), new Promise(r=>setTimeout(()=>r("HUNG"),3000))]); console.log("fresh",d,st,ok,c.client.status, (performance.now()-t).toFixed(1)); }
await s.stop(); Deno.exit(0);
