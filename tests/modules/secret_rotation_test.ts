// What modules store encrypted survives rotations of the gateway's secret.
import assert from "node:assert/strict";
import { HOUR_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../engines.ts";
import { type Harness, openGateway, SECRET } from "../harness.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { createRoom, ok } from "./fixtures.ts";

const API = "/v1/collaboration";
const NEXT = "the next secret, 32 bytes or more of it";
const PLUGIN = {
  id: "org.example.plugin",
  name: "Plugin",
  version: "1.0.0",
  apiVersion: 1,
  transport: "http",
  endpoint: "https://plugin.example.com/",
  scopes: [],
  configSchema: [{ kind: "text", name: "key", label: "Key", required: true }],
};

/** Has each column once. */
async function storeSecrets(gateway: Harness): Promise<void> {
  const owner = await gateway.as("olga", { role: "owner" });
  const roomId = await createRoom(owner, []);
  const url = "https://hooks.example.com/";
  const webhook = ok(await owner.post(`${API}/webhooks`, { url, events: ["message.*"], roomIds: [roomId] }));
  ok(await owner.post(`${API}/webhooks/${webhook.id}/rotate`));
  ok(await owner.post(`${API}/incoming`, { roomId, displayName: "CI", signed: true }));
  const command = { roomId, name: "deploy", description: "Deploy", displayName: "CI", url };
  const { id } = ok(await owner.post(`${API}/slash-commands`, command));
  ok(await owner.post(`${API}/slash-commands/${id}/rotate`));
  const provider = { kind: "openai", baseUrl: "https://models.example.com/v1", apiKey: "key", models: [{ id: "m" }] };
  ok(await owner.put(`${API}/ai/providers/main`, provider));
  ok(await owner.put(`${API}/mcp/servers/wiki`, { url: "https://wiki.example.com/mcp", headers: { "X-Key": "key" } }));
  ok(await owner.post(`${API}/plugins`, { manifest: PLUGIN }));
  ok(await owner.patch(`${API}/plugins/${PLUGIN.id}`, { config: { key: "key" } }));
}

type Secret = { column: string; encrypted: string; isReadable: boolean };

async function readSecrets({ app: { modules, store } }: Harness): Promise<Secret[]> {
  const secrets: Secret[] = [];
  for (const { table, column, encryptor, contextOf } of modules.flatMap(({ encrypted = [] }) => encrypted)) {
    for (const row of await store.db.selectFrom(table).selectAll().where(column, "is not", null).execute()) {
      const [encrypted, tenant_id, id] = [row[column], row["tenant_id"], row["id"]];
      const isReadable = encryptor.decrypt(encrypted, contextOf({ tenant_id, id })) !== undefined;
      secrets.push({ column: `${table}.${column}`, encrypted, isReadable });
    }
  }
  return secrets;
}

/** By their names. */
async function listEncryptedColumns(): Promise<string[]> {
  await using gateway = await openGateway();
  const tables = await gateway.app.store.db.introspection.getTables();
  const columns = tables.flatMap((table) => table.columns.map(({ name }) => `${table.name}.${name}`));
  return columns.filter((name) => name.endsWith("_encrypted"));
}

testOnEngines(
  "what is stored encrypted is encrypted with the current secret an hour after a rotation",
  async (engine) => {
    await using folder = await createTemporaryFolder();
    const environment = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path, ...engine };
    {
      await using gateway = await openGateway(environment);
      await storeSecrets(gateway);
      const columns = (await readSecrets(gateway)).map(({ column }) => column);
      assert.deepEqual(columns.sort(), (await listEncryptedColumns()).sort());
    }
    {
      await using gateway = await openGateway({
        ...environment,
        SVC_JWT_SECRET: NEXT,
        SVC_JWT_SECRET_PREVIOUS: SECRET,
      });
      const before = await readSecrets(gateway);
      await gateway.app.runMaintenance();
      assert.deepEqual(await readSecrets(gateway), before, "other nodes may have the previous secret only");
      gateway.clock.advance(HOUR_MS);
      await gateway.app.runMaintenance();
    }
    await using gateway = await openGateway({ ...environment, SVC_JWT_SECRET: NEXT });
    const lost = (await readSecrets(gateway)).filter(({ isReadable }) => !isReadable);
    assert.deepEqual(lost, []);
  },
);
