// A real Alertmanager posts into a room, in its own format and in that of Slack, and counts our answer as a success.
import assert from "node:assert/strict";
import { freePort } from "../free_port.ts";
import { openGateway } from "../harness.ts";
import { createCallers, createRoom, ok, readTexts } from "../modules/fixtures.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { until } from "../wait.ts";

const PROGRAM = "/usr/bin/prometheus-alertmanager";
const isInstalled = await Deno.stat(PROGRAM).then(() => true, () => false);

Deno.test({
  name: "Alertmanager posts its alerts into a room",
  ignore: !isInstalled,
  async fn() {
    await using gateway = await openGateway();
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const { path } = ok(
      await alice.post("/v1/collaboration/incoming", { roomId, displayName: "Alertmanager" }),
    );
    await using server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => gateway.app.fetch(request, "127.0.0.1"),
    );
    const url = `http://127.0.0.1:${server.addr.port}${path}`;
    await using folder = await createTemporaryFolder();
    const port = freePort();
    const own = `http://127.0.0.1:${port}`;
    await Deno.writeTextFile(
      `${folder.path}/alertmanager.yml`,
      JSON.stringify({
        route: { receiver: "room", group_by: ["alertname"], group_wait: "100ms", group_interval: "1s" },
        receivers: [{
          name: "room",
          webhook_configs: [{ url, send_resolved: true }],
          slack_configs: [{ api_url: url, channel: "#room", send_resolved: true }],
        }],
      }),
    );
    const process = new Deno.Command(PROGRAM, {
      args: [
        `--config.file=${folder.path}/alertmanager.yml`,
        `--storage.path=${folder.path}`,
        `--web.listen-address=127.0.0.1:${port}`,
        "--cluster.listen-address=",
      ],
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      await until(async () => {
        const response = await fetch(`${own}/-/ready`).catch(() => undefined);
        await response?.body?.cancel();
        return response?.ok === true;
      });
      const send = async (more: Record<string, string>): Promise<void> => {
        const response = await fetch(`${own}/api/v2/alerts`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify([{
            labels: { alertname: "DiskFull", instance: "db1", severity: "critical" },
            annotations: { summary: "Disk of db1 is full" },
            ...more,
          }]),
        });
        assert.equal(response.status, 200, await response.text());
      };
      const texts = () => readTexts(alice, roomId);
      const isPosted = (part: string) => until(async () => (await texts()).some((text) => text.includes(part)), part);
      await send({});
      await isPosted("**[FIRING: 1]** DiskFull\n- **DiskFull** (firing): Disk of db1 is full");
      // As Slack gets it.
      await isPosted("**[FIRING:1  DiskFull");
      await send({ endsAt: new Date().toISOString() });
      await isPosted("**[RESOLVED]** DiskFull");
      await isPosted("**[RESOLVED  DiskFull");
      const metrics = await (await fetch(`${own}/metrics`)).text();
      for (const integration of ["webhook", "slack"]) {
        const count = (name: string): number =>
          metrics.split("\n").filter((line) => line.startsWith(name) && line.includes(`integration="${integration}"`))
            .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
        assert.ok(count("alertmanager_notifications_total{") > 0, integration);
        assert.equal(count("alertmanager_notifications_failed_total{"), 0, integration);
      }
    } finally {
      process.kill("SIGTERM");
      await process.status;
    }
  },
});
