// Reading contents: ranges, conditions, headers.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fc from "npm:fast-check@4.10.2";
import { Fault } from "@/core/fault.ts";
import { logBrokenResponse, logOf } from "@/core/log.ts";
import { captureLog } from "../../log_capture.ts";
import { openGateway } from "../../harness.ts";
import { download, FILES, pngHeader, sha256, upload } from "./file_harness.ts";
import { assertProblem, createCallers, ok } from "../fixtures.ts";

Deno.test("file.content responds to ranges as RFC 9110 specifies", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const bytes = new Uint8Array(randomBytes(200_000));
  const { id } = ok(await upload(gateway, alice, { name: "noise" }, bytes));
  const cases: [string, number, number, number][] = [
    ["bytes=0-0", 206, 0, 1],
    ["bytes=10-19", 206, 10, 20],
    ["bytes=70000-140000", 206, 70_000, 140_001],
    ["bytes=199999-", 206, 199_999, 200_000],
    ["bytes=100-999999999", 206, 100, 200_000],
    ["bytes=-5", 206, 199_995, 200_000],
    ["bytes=-900000", 206, 0, 200_000],
    ["bytes=0-1,5-6", 200, 0, 200_000],
    ["bytes=9-5", 200, 0, 200_000],
    ["bytes=-", 200, 0, 200_000],
    ["lines=1-2", 200, 0, 200_000],
  ];
  for (const [range, status, start, end] of cases) {
    const answer = await download(gateway, alice, id, { Range: range });
    assert.equal(answer.status, status, range);
    assert.equal(answer.headers.get("content-length"), String(end - start), range);
    assert.equal(
      answer.headers.get("content-range"),
      status === 206 ? `bytes ${start}-${end - 1}/200000` : null,
      range,
    );
    assert.deepEqual(answer.bytes, bytes.subarray(start, end), range);
  }
  for (const range of ["bytes=200000-", "bytes=200000-300000", "bytes=-0"]) {
    const answer = await alice.get(`${FILES}/${id}/content`, { Range: range });
    assertProblem(answer, 416, "range_not_satisfiable");
    assert.equal(answer.headers.get("content-range"), "bytes */200000");
  }
});

Deno.test("two adjacent ranges have the whole content", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const bytes = new Uint8Array(randomBytes(150_000));
  const { id } = ok(await upload(gateway, alice, { name: "noise" }, bytes));
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: bytes.length - 1 }), async (cut) => {
      const left = await download(gateway, alice, id, { Range: `bytes=0-${cut - 1}` });
      const right = await download(gateway, alice, id, { Range: `bytes=${cut}-` });
      assert.equal(sha256(Buffer.concat([left.bytes, right.bytes])), sha256(bytes));
    }),
    { numRuns: 25 },
  );
});

Deno.test("file.content responds to conditions and HEAD without the content", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const { id, sha256: hash } = ok(await upload(gateway, alice, { name: "a.txt" }, "0123456789"));
  const whole = await download(gateway, alice, id);
  const etag = whole.headers.get("etag") ?? "";
  const modified = whole.headers.get("last-modified") ?? "";
  assert.equal(etag, `"${hash}"`);
  assert.equal(whole.headers.get("repr-digest"), `sha-256=:${sha256("0123456789", "base64")}:`);
  const known = await download(gateway, alice, id, { "If-None-Match": `"x", W/${etag}` });
  assert.deepEqual([known.status, known.bytes.length], [304, 0]);
  const head = await download(gateway, alice, id, {}, "HEAD");
  assert.deepEqual([head.status, head.bytes.length, head.headers.get("content-length")], [200, 0, "10"]);
  const part = await download(gateway, alice, id, { Range: "bytes=2-3" }, "HEAD");
  assert.deepEqual([part.status, part.headers.get("content-length")], [206, "2"]);
  for (const [condition, status] of [[etag, 206], [modified, 206], ['"other"', 200], [`W/${etag}`, 200]] as const) {
    const answer = await download(gateway, alice, id, { Range: "bytes=0-1", "If-Range": condition });
    assert.equal(answer.status, status, condition);
  }
  assertProblem(await alice.get(`${FILES}/file_none/content`), 404, "not_found");
  assertProblem(await alice.get(`${FILES}/..%2f..%2fetc/content`), 404, "not_found");
});

Deno.test("file.content serves only safe types inline, and never as a page of the gateway's origin", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const cases: (readonly [string, string | Uint8Array<ArrayBuffer>, string, string, string])[] = [
    ["i.png", pngHeader(1, 1), "image/png", "inline", "image/png"],
    ["t.txt", "hi", "text/plain", "inline", "text/plain; charset=utf-8"],
    ["v.csv", "a,b", "text/csv", "inline", "text/csv; charset=utf-8"],
    ...[
      ["h.html", "<script>1</script>", "text/html"],
      ["x.xhtml", "<html xmlns='http://www.w3.org/1999/xhtml'/>", "application/xhtml+xml"],
      ["s.svg", "<svg onload='x()'/>", "image/svg+xml"],
      ["x.xml", "<?xml version='1.0'?><a/>", "application/xml"],
      ["x.xsl", "<?xml version='1.0'?><a/>", "text/xsl"],
      ["x.xslt", "<?xml version='1.0'?><a/>", "application/xslt+xml"],
      ["j.js", "alert(1)", "application/javascript"],
      ["j.mjs", "alert(1)", "text/javascript"],
      ["e.js", "alert(1)", "application/ecmascript"],
      ["c.css", "a{}", "text/css"],
      ["w.wasm", "\0asm\x01\0\0\0", "application/wasm"],
      ["m.json", "{}", "application/manifest+json"],
      ["j.json", "{}", "application/json"],
      ["a.appcache", "CACHE MANIFEST", "text/cache-manifest"],
      ["v.vtt", "WEBVTT", "text/vtt"],
      ["f.foo", "x\0", "application/x-foo"],
    ].map(([name = "", body = "", type = ""]) => [name, body, type, "attachment", "application/octet-stream"] as const),
    ["p.pdf", "%PDF-1.7\n%", "application/pdf", "attachment", "application/pdf"],
  ];
  for (const [name, body, type, kind, served] of cases) {
    const { id } = ok(await upload(gateway, alice, { name }, body, { "content-type": type }));
    // As a browser asks for the script of a service worker.
    const { headers } = await download(gateway, alice, id, { "Service-Worker": "script" });
    assert.equal(headers.get("service-worker-allowed"), null);
    assert.equal(headers.get("content-disposition"), `${kind}; filename="${name}"; filename*=UTF-8''${name}`);
    assert.equal(headers.get("content-type"), served, name);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("content-security-policy"), "sandbox; default-src 'none'");
    assert.match(headers.get("cache-control") ?? "", /^private/);
  }
});

Deno.test("every accepted file name is preserved in Content-Disposition and injects nothing into it", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const samples = ['Größe "1".txt', "日本語.txt", "a'b(c)*%41;filename=x.txt", "🎉 party, time.txt", "tab and = sign"];
  for (const name of samples) {
    const { id } = ok(await upload(gateway, alice, { name }, "x"));
    const header = (await download(gateway, alice, id)).headers.get("content-disposition") ?? "";
    const found = /^inline; filename="([\x20-\x7e]*)"; filename\*=UTF-8''([A-Za-z0-9%._~!-]+)$/.exec(header);
    assert.ok(found !== null, header);
    assert.ok(!/["\\%]/.test(found[1] ?? ""), header);
    assert.equal(decodeURIComponent(found[2] ?? ""), name);
  }
});

Deno.test("file.content says in the log that a node lacks the files of its database", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const { id } = ok(await upload(gateway, alice, { name: "notes" }, "stored by another node"));
  await Deno.remove(`${gateway.folder}/files`, { recursive: true });
  const records = await captureLog(["gateway", "file"], async () => {
    for (let read = 0; read < 2; read++) assertProblem(await alice.get(`${FILES}/${id}/content`), 410, "gone");
  });
  assert.deepEqual(records.map(({ level, properties }) => [level, properties]), [["warning", { file: id }]]);
});

Deno.test("a response that a store aborts is not an error in the log", async () => {
  const log = logOf("main");
  const records = await captureLog(["gateway", "main"], () => {
    logBrokenResponse(log, new Fault("unavailable", "The file store is unavailable"));
    logBrokenResponse(log, new TypeError("a mistake"));
    return Promise.resolve();
  });
  assert.deepEqual(records.map(({ level }) => level), ["warning", "error"]);
});
