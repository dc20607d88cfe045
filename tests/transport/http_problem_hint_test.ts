// Errors suggest the field, parameter, path or method that was probably intended.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { editDistance, nearestName } from "@/core/input/suggestion.ts";
import { createNearestRoutes } from "@/transport/http/nearest_route.ts";
import { cpuTimeMs } from "../cpu_time.ts";
import { openGateway } from "../harness.ts";

Deno.test("an unknown field yields a suggestion, or that the token identifies the caller", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: { id: roomId } } = await alice.post("/v1/rooms", { name: "Room" });
  for (
    const [field, detail] of [
      ["senderId", "unknown field; the sender is always the sub of the token"],
      ["userId", "unknown field; the sender is always the sub of the token"],
      ["from", "unknown field; the sender is always the sub of the token"],
      ["replyTo", "unknown field; did you mean replyToId?"],
      ["parent_id", "unknown field; did you mean replyToId?"],
      ["client_message_id", "unknown field; did you mean clientMessageId?"],
      ["clientMesageId", "unknown field; did you mean clientMessageId?"],
      ["client", "unknown field; did you mean clientMessageId?"],
      ["zzyzx", "unknown field"],
    ] as const
  ) {
    const { status, body } = await alice.post("/v1/messages", { roomId, text: "x", [field]: "x" });
    assert.deepEqual([status, body.code, body.errors[0].detail], [422, "unknown_field", detail]);
    assert.equal(body.detail, `/${field}: ${detail}`);
  }
  const { body } = await alice.post("/v1/messages", { room_id: roomId, content: "x" });
  const details = body.errors.map(({ detail }: { detail: string }) => detail);
  assert.ok(details.includes("unknown field; did you mean roomId?"), JSON.stringify(body.errors));
  assert.ok(details.includes("unknown field; did you mean text?"), JSON.stringify(body.errors));
});

Deno.test("a missing field is said to be required, with what is expected", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body: { id: roomId } } = await alice.post("/v1/rooms", { name: "Room" });
  const anchor = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
  const event = { roomId, title: "Call", start: anchor, end: anchor };
  for (
    const [path, body, detail] of [
      ["/v1/messages", {}, "/roomId: required, expected string"],
      ["/v1/collaboration/tasks", { roomId }, "/title: required, expected string"],
      [
        "/v1/collaboration/permissions/check",
        { checks: [{ principalId: "bob" }] },
        "/checks/0/action: required, expected string",
      ],
      [
        "/v1/collaboration/calendar/events",
        { ...event, start: undefined },
        "/start: required, expected object {dateTime, timeZone} or {date}",
      ],
      [
        "/v1/collaboration/calendar/events",
        { ...event, end: "2026-03-02T09:00:00Z" },
        "/end: expected object {dateTime, timeZone} or {date}, received string",
      ],
      [
        "/v1/collaboration/memory/items",
        { scope: "room", text: "A fact" },
        "/scope: expected object {type, id} or {type}, received string",
      ],
    ] as const
  ) {
    const { status, body: problem } = await alice.post(path, body);
    assert.deepEqual([status, problem.code, problem.detail], [422, "validation_failed", detail]);
    const [{ pointer, detail: own }] = problem.errors;
    assert.equal(`${pointer}: ${own}`, detail);
  }
});

Deno.test("the detail lists several errors, unknown fields first", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body } = await alice.post("/v1/messages", { room_id: "x", text: 5 });
  assert.equal(
    body.detail,
    "/room_id: unknown field; did you mean roomId?; /roomId: required, expected string; " +
      "/text: expected string, received number",
  );
  assert.deepEqual(body.errors.map(({ pointer }: { pointer: string }) => pointer), ["/room_id", "/roomId", "/text"]);
  const { body: many } = await alice.post("/v1/rooms", Object.fromEntries("abcdefgh".split("").map((x) => [x, x])));
  assert.equal(many.errors.length, 9);
  assert.ok(many.detail.startsWith("/a: unknown field; /b: unknown field; "), many.detail);
  assert.ok(many.detail.endsWith("/e: unknown field; 4 more"), many.detail);
  const start = { dateTime: "2026-03-02" };
  assert.equal(
    (await alice.post("/v1/collaboration/calendar/events", { title: "Call", start })).body.detail,
    "/start/dateTime: expected a wall time such as 2026-03-29T09:00:00, without offset, from 1900 to 2199; " +
      "/start/dateTime: date or time does not exist; /start/timeZone: required, expected string",
    "of a field with several forms, those of the likeliest",
  );
});

Deno.test("an unknown nested field yields a suggestion from the same object", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const { body } = await alice.patch("/v1/collaboration/me", { notificationPrefs: { mention: true } });
  assert.deepEqual(body.errors.map(({ pointer, detail }: Record<string, string>) => [pointer, detail]), [
    ["/notificationPrefs/mention", "unknown field; did you mean mentions?"],
  ]);
});

Deno.test("of a field with several forms, the errors are those of the form that was probably meant", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
  const event = { title: "Call", start, durationMinutes: 30 };
  for (
    const [field, value, detail] of [
      [
        "start",
        { dateTime: "2026-03-02T09:00:00", timezone: "Europe/Vienna" },
        "/start/timezone: unknown field; did you mean timeZone?; /start/timeZone: required, expected string",
      ],
      [
        "start",
        { date: "2026-03-02", timeZone: "Europe/Vienna" },
        "/start/timeZone: not allowed beside the others; expected {dateTime, timeZone} or {date}",
      ],
      [
        "attendees",
        [{ principalId: "bob", email: "bob@example.com" }],
        "/attendees/0/email: not allowed beside the others; expected {principalId, role} or {email, role}",
      ],
      [
        "attendees",
        [{ userId: "bob" }],
        "/attendees/0/userId: unknown field; did you mean principalId?; " +
        "/attendees/0/principalId: required, expected string",
      ],
    ] as const
  ) {
    const { status, body } = await alice.post("/v1/collaboration/calendar/events", { ...event, [field]: value });
    assert.equal(status, 422);
    assert.equal(body.detail, detail);
  }
});

Deno.test("an unknown query parameter yields a suggestion", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  for (const [name, meant] of [["pageToken", "cursor"], ["page", "cursor"], ["per_page", "limit"], ["lmit", "limit"]]) {
    const { status, body } = await alice.get(`/v1/rooms?${name}=1`);
    assert.deepEqual([status, body.code], [400, "unknown_parameter"]);
    assert.equal(body.detail, `Unknown query parameter ${name}; did you mean ${meant}?`);
  }
  for (
    const [path, expected] of [
      ["webhooks/webhook_1/deliveries?status=failed", "status; expected outcome or limit"],
      ["tenant?colour=red", "colour; expected none"],
    ]
  ) {
    const { body } = await alice.get(`/v1/collaboration/${path}`);
    assert.equal(body.detail, `Unknown query parameter ${expected}`);
  }
});

Deno.test("an unknown path yields the nearest ones, a wrong method the supported ones", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  for (
    const [path, meant] of [
      ["/rooms", "GET, POST /v1/rooms"],
      ["/v1/room", "GET, POST /v1/rooms"],
      ["/api/v1/rooms", "GET, POST /v1/rooms"],
      ["/v1/tasks", "GET, POST /v1/collaboration/tasks"],
      ["/v1/rooms/room_1/messages", "/v1/messages"],
      ["/v1/Messages", "/v1/messages"],
      ["/v1/collaboration/calender/events", "/v1/collaboration/calendar/events"],
      ["/openapi.yaml", "GET /openapi.json"],
      ["/heath", "GET /health"],
    ] as const
  ) {
    const { status, body } = await alice.get(path);
    assert.deepEqual([status, body.code], [404, "route_not_found"], path);
    assert.match(body.detail, /^No such endpoint; did you mean [^?]+\?$/, path);
    assert.ok(body.detail.includes(meant), `${path}: ${body.detail}`);
  }
  assert.equal(
    (await alice.get("/zzyzx/qwerty")).body.detail,
    "No such endpoint; see /docs for all endpoints",
  );
  for (
    const [path, meant] of [
      ["/v1/rooms//members/robo", "DELETE, PUT /v1/rooms/:id/members/:principalId"],
      ["/v1/messages//reactions/x", "DELETE, PUT /v1/messages/:id/reactions/:key"],
      ["/v1/rooms/", "DELETE, GET, PATCH /v1/rooms/:id"],
      ["//v1/rooms", "GET, POST /v1/rooms"],
    ] as const
  ) {
    const { status, body } = await alice.put(path);
    assert.deepEqual([status, body.code], [404, "route_not_found"], path);
    const start = `No such endpoint: a segment of the path is empty; did you mean ${meant}`;
    assert.ok(body.detail.startsWith(start), `${path}: ${body.detail}`);
  }
  assert.equal(
    (await alice.get("//")).body.detail,
    "No such endpoint: a segment of the path is empty; see /docs for all endpoints",
  );
  const { status, headers, body } = await alice.put("/v1/rooms");
  assert.deepEqual([status, headers.get("allow")], [405, "GET, HEAD, POST"]);
  assert.equal(body.detail, "PUT is not supported here; use GET, HEAD, POST");
});

Deno.test("who makes up paths without end gets no suggestions, which take long", () => {
  const nearestRoutes = createNearestRoutes([{ method: "GET", path: "/health" }]);
  const answers = Array.from({ length: 1000 }, () => nearestRoutes("/heath"));
  assert.deepEqual([answers.at(0), answers.at(-1)], [["GET /health"], []]);
});

Deno.test("/ is a page for browsers and returns entry points to other clients", async () => {
  await using gateway = await openGateway();
  const anybody = gateway.withToken(undefined);
  const page = await anybody.get("/", { accept: "text/html,application/xhtml+xml,*/*;q=0.8" });
  assert.deepEqual([page.status, page.headers.get("vary")], [200, "Accept-Encoding, Accept, Origin"]);
  assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  for (const accept of ["*/*", "application/json"]) {
    const { status, body } = await anybody.get("/", { accept });
    assert.equal(status, 200);
    for (const path of [body.docs, ...body.documents]) assert.equal((await anybody.get(`/${path}`)).status, 200, path);
  }
});

Deno.test("suggestions have bounded cost for long and many names", async () => {
  assert.equal(editDistance("kitten", "sitting"), 3);
  assert.equal(nearestName("x".repeat(100_000), ["roomId"]), undefined);
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const cost = async (work: () => Promise<unknown>) => {
    await work();
    const before = cpuTimeMs();
    for (let count = 0; count < 50; count++) await work();
    return cpuTimeMs() - before;
  };
  const fields = (count: number, length: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`${at}${"x".repeat(length)}`, 1]));
  const path = `/v1/${"collaboratiom/".repeat(9)}`;
  const [plain, odd, far] = [
    await cost(() => alice.post("/v1/messages", fields(1, 1))),
    await cost(() => alice.post("/v1/messages", fields(500, 36))),
    await cost(() => alice.get(path)),
  ];
  // The measure has steps of 10 ms; such names may cost a few milliseconds per request.
  assert.ok(odd < 20 * (plain + 10) && far < 20 * (plain + 10), `${plain}, ${odd}, ${far} ms of 50`);
});
