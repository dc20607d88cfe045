// Reading contents: ranges, conditions, headers.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fc from "npm:fast-check@4.10.2";
import { download, FILES, openFileGateway, png, sha256, upload } from "./file_rig.ts";
import { ok, people, refused } from "./team.ts";

Deno.test("file.content answers ranges as RFC 9110 wants them", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
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
    refused(answer, 416, "range_not_satisfiable");
    assert.equal(answer.headers.get("content-range"), "bytes */200000");
  }
});

Deno.test("any two ranges that meet make the whole", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
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

Deno.test("file.content answers conditions and HEAD without the content", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
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
  refused(await alice.get(`${FILES}/file_none/content`), 404, "not_found");
  refused(await alice.get(`${FILES}/..%2f..%2fetc/content`), 404, "not_found");
});

Deno.test("file.content shows only what is safe to show, and never as a page of ours", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const cases = [
    ["i.png", png(1, 1), "image/png", "inline", "image/png"],
    ["t.txt", "hi", "text/plain", "inline", "text/plain; charset=utf-8"],
    ["h.html", "<script>1</script>", "text/html", "attachment", "text/html; charset=utf-8"],
    ["s.svg", "<svg onload='x()'/>", "image/svg+xml", "attachment", "image/svg+xml"],
    ["j.js", "alert(1)", "application/javascript", "attachment", "application/javascript"],
    ["p.pdf", "%PDF-1.7\n%", "application/pdf", "attachment", "application/pdf"],
  ] as const;
  for (const [name, body, type, kind, served] of cases) {
    const { id } = ok(await upload(gateway, alice, { name }, body, { "content-type": type }));
    const { headers } = await download(gateway, alice, id);
    assert.equal(headers.get("content-disposition"), `${kind}; filename="${name}"; filename*=UTF-8''${name}`);
    assert.equal(headers.get("content-type"), served);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("content-security-policy"), "sandbox; default-src 'none'");
    assert.match(headers.get("cache-control") ?? "", /^private/);
  }
});

Deno.test("any name that is taken comes back whole from its header, which holds nothing but it", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
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
