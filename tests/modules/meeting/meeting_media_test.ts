// Media: TURN credentials, tokens of a media server, recordings with the consent of all participants.
import assert from "node:assert/strict";
import { jwtVerify } from "jose";
import { readConfig } from "@/config/config.ts";
import { turnCredential } from "@/modules/meeting/media.ts";
import { SECRET } from "../../harness.ts";
import { type MeetingFixture, openMeetingFixture, PATH } from "./meeting_fixture.ts";
import { ok } from "../room/room_fixture.ts";

const KEY = "devkey";
const API_SECRET = "a secret of the media server, 32 bytes or more";

/** A media server that records requests: its API as far as the gateway uses it. */
class MediaServer {
  readonly calls: { method: string; body: Record<string, unknown>; grants: Record<string, unknown> }[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  isFailing = false;
  /** Recorders that have not ended. */
  recorders: { egress_id: string; status: string }[] = [];
  /** What happens while the recorder starts. */
  onStart: () => Promise<unknown> = () => Promise.resolve();

  constructor() {
    this.#server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen: () => {} },
      (request) => this.#response(request),
    );
  }

  get environment(): Record<string, string> {
    return {
      SVC_LIVEKIT_URL: `ws://127.0.0.1:${this.#server.addr.port}`,
      SVC_LIVEKIT_API_KEY: KEY,
      SVC_LIVEKIT_API_SECRET: API_SECRET,
    };
  }

  get methods(): string[] {
    return this.calls.map(({ method }) => method);
  }

  async #response(request: Request): Promise<Response> {
    const method = new URL(request.url).pathname.split("/").at(-1) ?? "";
    const token = request.headers.get("authorization")?.slice("Bearer ".length) ?? "";
    const { payload } = await jwtVerify(token, new TextEncoder().encode(API_SECRET), { issuer: KEY });
    this.calls.push({ method, body: await request.json(), grants: Object(payload.video) });
    if (this.isFailing) return Response.json({ code: "unavailable", msg: "no recorder" }, { status: 503 });
    switch (method) {
      case "StartRoomCompositeEgress":
        await this.onStart();
        return Response.json({ egress_id: "EG_1", status: "EGRESS_STARTING" });
      case "StopEgress":
        return Response.json({ egress_id: "EG_1", status: "EGRESS_ENDING" });
      case "ListEgress":
        return Response.json({ items: this.recorders });
      case "GetParticipant":
        return Response.json({
          sid: "PA_1",
          tracks: [{ sid: "TR_1", source: "MICROPHONE" }, { sid: "TR_2", source: "CAMERA" }],
        });
      case "RemoveParticipant":
        return Response.json({ code: "not_found", msg: "gone already" }, { status: 404 });
      default:
        return Response.json({});
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

async function recordingOf(fixture: MeetingFixture, meeting: { id: string }): Promise<Record<string, unknown>> {
  return (await fixture.read(meeting)).recording;
}

/** HMAC-SHA1 by Web Crypto, independent of the implementation under test. */
async function hmacSha1(secret: string, text: string): Promise<string> {
  const bytes = (part: string) => new TextEncoder().encode(part);
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-1" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(text))).toBase64();
}

Deno.test("TURN credentials are what a server with the shared secret computes", async () => {
  // openssl dgst -sha1 -hmac north -binary | base64
  const vector = turnCredential("north", "alice@example.com", 1_772_370_000);
  assert.deepEqual(vector, { username: "1772370000:alice@example.com", credential: "+yQtCa+Bq34xaAHJxNIfvG7JFo8=" });
  await using fixture = await openMeetingFixture({
    SVC_STUN_URLS: "stun:ice.example.com:3478",
    SVC_TURN_URLS: "turn:ice.example.com:3478?transport=udp, turns:ice.example.com:5349",
    SVC_TURN_SECRET: "north",
  });
  const { media } = await fixture.join(await fixture.start(), "member");
  const [stun, turn] = media.iceServers;
  assert.deepEqual(stun, { urls: ["stun:ice.example.com:3478"] });
  assert.deepEqual(turn.urls, ["turn:ice.example.com:3478?transport=udp", "turns:ice.example.com:5349"]);
  const [expiry, principal] = turn.username.split(":");
  assert.equal(principal, "member");
  assert.equal(Number(expiry) * 1000, fixture.gateway.clock.now() + 3_600_000);
  assert.equal(media.expiresAt, new Date(Number(expiry) * 1000).toISOString());
  assert.equal(turn.credential, await hmacSha1("north", turn.username));
});

Deno.test("an incomplete configuration of TURN or of the media server stops the start and names what is missing", () => {
  const start = (environment: Record<string, string>) => () =>
    readConfig({
      get: (name) => ({ SVC_JWT_SECRET: SECRET, ...environment } as Record<string, string>)[name],
      readFile: (path) => path === "/run/turn" ? "south\n" : "",
    });
  assert.throws(start({ SVC_TURN_URLS: "turn:ice.example.com" }), /SVC_TURN_SECRET is missing/);
  assert.throws(start({ SVC_TURN_URLS: "ice.example.com", SVC_TURN_SECRET: "x" }), /SVC_TURN_URLS is not valid/);
  assert.throws(start({ SVC_LIVEKIT_URL: "wss://media.example.com" }), /SVC_LIVEKIT_API_KEY/);
  const config = start({ SVC_TURN_URLS: "turn:ice.example.com", SVC_TURN_SECRET_FILE: "/run/turn" })();
  assert.equal(config.turnSecret, "south");
  assert.equal(config.liveKit, undefined);
});

Deno.test("without a media server a recording is refused, and the problem names what is missing", async () => {
  await using fixture = await openMeetingFixture();
  const meeting = await fixture.start();
  await fixture.join(meeting, "member");
  const response = await fixture.as("member").post(`${PATH}/${meeting.id}/recording`, { consentText: "May we?" });
  assert.deepEqual([response.status, response.body.code], [409, "recording_not_configured"]);
  assert.match(response.body.detail, /SVC_LIVEKIT_URL/);
  assert.equal((await fixture.read(meeting)).recording, null);
  const { body } = await fixture.as("member").get("/v1/collaboration/capabilities");
  assert.deepEqual(body.modules.meeting.recording, { enabled: false, reason: "recording_not_configured" });
});

Deno.test("a media server's token is for one meeting, one participant and one minute", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start({ kind: "audio" });
  assert.equal(meeting.maxParticipants, 100);
  const { media, participantId } = await fixture.join(meeting, "member");
  assert.deepEqual([media.mode, media.url], ["livekit", server.environment.SVC_LIVEKIT_URL]);
  const { payload } = await jwtVerify(media.token, new TextEncoder().encode(API_SECRET), { issuer: KEY });
  assert.equal(payload.sub, participantId);
  assert.deepEqual(payload.attributes, { principalId: "member", role: "host" });
  const { room, roomJoin, canPublishSources, roomAdmin } = Object(payload.video);
  assert.deepEqual([room, roomJoin, roomAdmin], [meeting.id, true, undefined]);
  assert.deepEqual(canPublishSources, ["microphone"]);
  assert.ok((payload.exp ?? 0) - (payload.nbf ?? 0) <= 60);
});

Deno.test("muting, removal and expiry apply on the media server as well, and its room ends with the meeting", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  await fixture.join(meeting, "member");
  const { participantId } = await fixture.join(meeting, "other");
  const path = `${PATH}/${meeting.id}/participants/${participantId}`;
  ok(await fixture.as("member").patch(path, { muted: true }));
  await fixture.gateway.runJobs();
  assert.deepEqual(server.methods, ["GetParticipant", "MutePublishedTrack"]);
  assert.deepEqual(server.calls[1]?.body, { room: meeting.id, identity: participantId, trackSid: "TR_1", muted: true });
  ok(await fixture.as("member").delete(path), 204);
  await fixture.gateway.runJobs();
  assert.deepEqual(server.calls[2]?.body, { room: meeting.id, identity: participantId });
  assert.equal(server.calls[2]?.grants.roomAdmin, true);
  ok(await fixture.call(meeting, "member", "end"));
  await fixture.gateway.runJobs();
  assert.deepEqual(server.methods.slice(2), ["RemoveParticipant", "DeleteRoom"]);
  assert.equal((await fixture.gateway.app.jobs.counts()).dead, 0);
  const metrics = await fixture.gateway.app.fetchMetrics(new Request("http://gateway.test/metrics"));
  const outbound = `svc_outbound_calls_total{outcome="responded"} ${server.calls.length}\n`;
  assert.ok((await metrics.text()).includes(outbound), "its calls leave by the outbound door");
});

Deno.test("a recording starts when all have consented, includes later participants, and ends with the meeting", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}/recording`;
  for (const name of ["member", "other", "moderator"]) await fixture.join(meeting, name);
  const asked = ok(await fixture.as("member").post(path, { consentText: "For those who are ill today." }), 202);
  assert.deepEqual([asked.recording.state, asked.recording.consentedIds, asked.recording.pendingIds], [
    "requested",
    ["member"],
    ["other", "moderator"],
  ]);
  assert.equal((await fixture.as("moderator").post(path, { consentText: "Again" })).status, 409);
  assert.equal((await fixture.as("owner").put(`${path}/consent`, { consent: true })).status, 403);
  ok(await fixture.as("other").put(`${path}/consent`, { consent: true }));
  await fixture.gateway.runJobs();
  assert.deepEqual(server.methods, []);
  ok(await fixture.as("moderator").put(`${path}/consent`, { consent: true }));
  await fixture.gateway.runJobs();
  assert.deepEqual(server.methods, ["ListEgress", "StartRoomCompositeEgress"]);
  assert.equal(server.calls[1]?.body.roomName, meeting.id);
  assert.equal((await recordingOf(fixture, meeting)).state, "recording");
  assert.equal((await fixture.tryJoin(meeting, "owner")).status, 403);
  await fixture.join(meeting, "owner", { recordingConsent: true });
  assert.deepEqual((await recordingOf(fixture, meeting)).consentedIds, ["member", "moderator", "other", "owner"]);
  ok(await fixture.call(meeting, "member", "end"));
  await fixture.gateway.runJobs();
  assert.deepEqual(server.methods.slice(2).sort(), ["DeleteRoom", "StopEgress"]);
  assert.equal((await recordingOf(fixture, meeting)).state, "stopped");
  const changes = (await fixture.readEvents()).filter(({ type }) => type === "meeting.recording_changed");
  assert.deepEqual(changes.map(({ data }) => data.meeting.recording.state), [
    "requested",
    "requested",
    "requested",
    "starting",
    "recording",
    "stopping",
    "stopped",
  ]);
});

Deno.test("nothing is recorded if one declines, or while one has not responded; leaving resolves it", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}/recording`;
  await fixture.join(meeting, "member");
  const other = await fixture.join(meeting, "other");
  ok(await fixture.as("member").post(path, { consentText: "May we?" }), 202);
  assert.equal(ok(await fixture.as("other").put(`${path}/consent`, { consent: false })).recording.state, "stopped");
  assert.equal((await fixture.as("other").put(`${path}/consent`, { consent: true })).status, 409);
  ok(await fixture.as("member").post(path, { consentText: "And now?" }), 202);
  await fixture.gateway.runJobs();
  assert.equal((await recordingOf(fixture, meeting)).state, "requested");
  ok(await fixture.call(meeting, "other", "leave", other.participantId), 204);
  await fixture.gateway.runJobs();
  assert.equal((await recordingOf(fixture, meeting)).state, "recording");
  ok(await fixture.as("member").delete(path), 202);
  await fixture.gateway.runJobs();
  assert.equal((await recordingOf(fixture, meeting)).state, "stopped");
  assert.equal((await fixture.as("member").delete(path)).status, 409);
});

Deno.test("a recorder that does not start is retried, then the recording is published as failed", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const seat = await fixture.join(meeting, "member");
  server.isFailing = true;
  ok(await fixture.as("member").post(`${PATH}/${meeting.id}/recording`, { consentText: "May we?" }), 202);
  for (let attempt = 0; attempt < 4; attempt++) {
    await fixture.advance(10);
    ok(await fixture.call(meeting, "member", "heartbeat", seat.participantId));
  }
  assert.equal(server.methods.length, 4);
  const { state, endedAt } = await recordingOf(fixture, meeting);
  assert.equal(state, "failed");
  assert.ok(endedAt);
});

Deno.test("a recording stopped while its recorder starts is stopped", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}/recording`;
  await fixture.join(meeting, "member");
  server.onStart = async () => ok(await fixture.as("member").delete(path), 202);
  ok(await fixture.as("member").post(path, { consentText: "May we?" }), 202);
  await fixture.gateway.runJobs();
  assert.equal(server.methods.filter((method) => method === "StopEgress").length, 1);
  assert.equal((await recordingOf(fixture, meeting)).state, "stopped");
});

Deno.test("none is admitted from the lobby to a recording without consent", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start({ lobby: true });
  const path = `${PATH}/${meeting.id}`;
  await fixture.join(meeting, "member");
  const waiting = await fixture.join(meeting, "other");
  ok(await fixture.as("member").post(`${path}/recording`, { consentText: "May we?" }), 202);
  await fixture.gateway.runJobs();
  assert.equal((await recordingOf(fixture, meeting)).state, "recording");
  const admit = () => fixture.as("member").patch(`${path}/participants/${waiting.participantId}`, { admitted: true });
  const refusal = await admit();
  assert.deepEqual([refusal.status, refusal.body.code], [409, "conflict"]);
  // Principals outside of the meeting cannot respond.
  assert.equal((await fixture.as("other").put(`${path}/recording/consent`, { consent: false })).status, 403);
  assert.equal((await recordingOf(fixture, meeting)).state, "recording");
  await fixture.join(meeting, "other", { recordingConsent: true });
  assert.equal(ok(await admit()).state, "joined");
  assert.deepEqual((await recordingOf(fixture, meeting)).consentedIds, ["member", "other"]);
});

Deno.test("stopping a recorder is retried until it succeeds", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}/recording`;
  const seat = await fixture.join(meeting, "member");
  ok(await fixture.as("member").post(path, { consentText: "May we?" }), 202);
  await fixture.gateway.runJobs();
  server.isFailing = true;
  ok(await fixture.as("member").delete(path), 202);
  ok(await fixture.call(meeting, "member", "leave", seat.participantId), 204);
  for (let attempt = 0; attempt < 15; attempt++) await fixture.advance(900);
  server.isFailing = false;
  await fixture.advance(900);
  const owner = await fixture.gateway.as("owner");
  assert.equal(ok(await owner.get(`${PATH}/${meeting.id}`)).recording.state, "stopped");
});

Deno.test("a recording after another has its own recorder, although the first is still writing its file", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = `${PATH}/${meeting.id}/recording`;
  await fixture.join(meeting, "member");
  for (const _ of [1, 2]) {
    ok(await fixture.as("member").post(path, { consentText: "May we?" }), 202);
    await fixture.gateway.runJobs();
    ok(await fixture.as("member").delete(path), 202);
    await fixture.gateway.runJobs();
    server.recorders = [{ egress_id: "EG_1", status: "EGRESS_ENDING" }];
  }
  assert.equal(server.methods.filter((method) => method === "StartRoomCompositeEgress").length, 2);
});

Deno.test("a removal reaches the media server when it is available again, and muting is not applied late", async () => {
  await using server = new MediaServer();
  await using fixture = await openMeetingFixture(server.environment);
  const meeting = await fixture.start();
  const path = (id: string) => `${PATH}/${meeting.id}/participants/${id}`;
  await fixture.join(meeting, "member");
  const [gone, muted] = [await fixture.join(meeting, "other"), await fixture.join(meeting, "moderator")];
  server.isFailing = true;
  ok(await fixture.as("member").delete(path(gone.participantId)), 204);
  ok(await fixture.as("member").patch(path(muted.participantId), { muted: true }));
  for (let attempt = 0; attempt < 8; attempt++) await fixture.advance(900);
  server.isFailing = false;
  server.calls.length = 0;
  await fixture.advance(900);
  assert.ok(server.methods.includes("RemoveParticipant"));
  assert.ok(!server.methods.includes("GetParticipant"));
  assert.equal((await fixture.gateway.app.jobs.counts()).dead, 0);
});
