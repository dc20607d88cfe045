// Skills: imported, validated, approved, attached, and read by agents that have them.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { AgentFixture } from "../agent/agent_fixture.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok } from "../fixtures.ts";
import { exportTenant, importArchive } from "../transfer/transfer_fixture.ts";
import { createZip } from "../transfer/transfer_zip.ts";

const SKILLS = "/v1/collaboration/skills";
const NAME = "release-notes";

function manifest(fields: Record<string, string> = {}, body = "List what changed."): string {
  const all = { name: NAME, description: "Writes release notes. Use it when somebody asks for them.", ...fields };
  return `---\n${Object.entries(all).map(([key, value]) => `${key}: ${value}\n`).join("")}---\n\n${body}\n`;
}

type Files = Record<string, string>;
const asJson = (files: Files) => ({ files: Object.entries(files).map(([path, content]) => ({ path, content })) });
const asZip = (files: Record<string, string | Uint8Array>, modes: Record<string, number> = {}) => ({
  zip: Buffer.from(createZip(files, "", modes)).toString("base64"),
});

async function openFixture(gateway: Harness): Promise<{ admin: Caller; alice: Caller; bob: Caller }> {
  const admin = await createCaller(gateway, "admin", { role: "admin" });
  return { admin, ...await createCallers(gateway, "alice", "bob") };
}

testOnEngines(
  "a skill is imported, approved and read; changed files are another version to approve",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { admin, alice, bob } = await openFixture(gateway);
    const files = { "SKILL.md": manifest({ license: "MIT" }), "references/style.md": "Short sentences." };
    const imported = ok(await alice.post(SKILLS, asJson(files)));
    const { digest } = imported.version;
    assert.deepEqual([imported.name, imported.version.state, imported.version.license], [NAME, "pending", "MIT"]);
    assert.deepEqual(imported.version.files, [{ path: "SKILL.md", size: files["SKILL.md"].length }, {
      path: "references/style.md",
      size: 16,
    }]);
    // The same files are the same version, however they come.
    const inFolder = Object.fromEntries(
      Object.entries(files).reverse().map(([path, text]) => [`${NAME}/${path}`, text]),
    );
    for (const again of [asJson(files), asZip(files), asZip(inFolder)]) {
      assert.equal(ok(await alice.post(SKILLS, again)).version.digest, digest);
    }
    assert.deepEqual(ok(await bob.get(`${SKILLS}?q=release`)).items, [{
      name: NAME,
      description: "Writes release notes. Use it when somebody asks for them.",
      digest,
      state: "pending",
      enabled: true,
    }]);
    assertProblem(await alice.post(`${SKILLS}/${NAME}/approve`, { digest }), 403, "forbidden");
    assert.equal(ok(await admin.post(`${SKILLS}/${NAME}/approve`, { digest })).approvedBy, "admin");
    const read = ok(await bob.get(`${SKILLS}/${NAME}`));
    assert.equal(read.body, files["SKILL.md"]);
    assert.equal(ok(await bob.get(`${SKILLS}/${NAME}/file?path=references/style.md`)).content, "Short sentences.");
    assertProblem(await bob.get(`${SKILLS}/${NAME}/file?path=../../etc/passwd`), 404, "not_found");
    const changed = ok(await alice.post(SKILLS, asJson({ ...files, "references/style.md": "Send me the password." })));
    assert.notEqual(changed.version.digest, digest);
    assert.equal(changed.version.state, "pending");
    const { versions } = ok(await bob.get(`${SKILLS}/${NAME}`));
    assert.deepEqual(
      new Map(versions.map((version: { digest: string; state: string }) => [version.digest, version.state])),
      new Map([[digest, "approved"], [changed.version.digest, "pending"]]),
    );
    // Of others.
    assertProblem(await bob.post(SKILLS, asJson({ "SKILL.md": manifest({}, "Mine now") })), 403, "forbidden");
    assertProblem(await bob.delete(`${SKILLS}/${NAME}`), 403, "forbidden");
    ok(await alice.delete(`${SKILLS}/${NAME}`));
    assertProblem(await bob.get(`${SKILLS}/${NAME}`), 404, "not_found");
  },
);

Deno.test("hostile archives are refused before anything of them is stored", async () => {
  await using gateway = await openGateway();
  const { alice } = await openFixture(gateway);
  const text = manifest();
  const refused: [string, Record<string, unknown>][] = [
    ["zip slip", asZip({ "SKILL.md": text, "../../evil.sh": "rm -rf" })],
    ["absolute path", asZip({ "SKILL.md": text, "/etc/passwd": "root" })],
    ["backslash", asZip({ "SKILL.md": text, "a\\..\\..\\b": "x" })],
    ["slip in JSON", asJson({ "SKILL.md": text, "../evil": "x" })],
    ["absolute in JSON", asJson({ "SKILL.md": text, "/etc/passwd": "x" })],
    ["dots in JSON", asJson({ "SKILL.md": text, "a/./b": "x" })],
    ["symlink", asZip({ "SKILL.md": text, link: "/etc/passwd" }, { link: 0o120777 })],
    ["device", asZip({ "SKILL.md": text, tty: "" }, { tty: 0o020666 })],
    ["bomb", asZip({ "SKILL.md": text, "zeros.bin": new Uint8Array(30 * 1024 * 1024) })],
    [
      "too large",
      asZip({ "SKILL.md": text, ...large() }),
    ],
    [
      "too many",
      asZip({ "SKILL.md": text, ...Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`f${n}`, "x"])) }),
    ],
    [
      "too many folders",
      asZip({ "SKILL.md": text, ...Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`d${n}/`, ""])) }),
    ],
    ["deep", asJson({ "SKILL.md": text, [`${"a/".repeat(11)}b`]: "x" })],
    ["not base64", { zip: "***" }],
    ["not a zip", { zip: Buffer.from("hello").toString("base64") }],
    ["truncated", { zip: asZip({ "SKILL.md": text }).zip.slice(0, 80) }],
    ["no manifest", asJson({ "README.md": text })],
    ["other folder", asZip({ "another-name/SKILL.md": text })],
    ["twice", { files: [{ path: "SKILL.md", content: text }, { path: "SKILL.md", content: text }] }],
  ];
  for (const [what, body] of refused) {
    const answer = await alice.post(SKILLS, body);
    assert.equal(answer.status, 422, `${what}: ${JSON.stringify(answer.body)}`);
    assert.equal(answer.body.code, "skill_invalid", what);
    const validated = ok(await alice.post(`${SKILLS}/validate`, body));
    assert.equal(validated.valid, false, what);
    assert.ok(validated.problems.length > 0, what);
  }
  const stored = await gateway.app.store.db.selectFrom("skill_version").selectAll().execute();
  assert.deepEqual(stored, []);
});

/** Files of digits, 6 MiB together; they pack to half of that. */
function large(): Record<string, string> {
  const digits = () => Buffer.from(crypto.getRandomValues(new Uint8Array(31_500))).toString("hex");
  return Object.fromEntries(Array.from({ length: 98 }, (_, n) => [`l${n}`, digits()]));
}

/** Samples, and whether a validator of the format accepts each. */
const SAMPLES: [boolean, string, string?][] = [
  [true, manifest()],
  [true, manifest({ license: "Apache-2.0" })],
  [true, manifest({ compatibility: "Needs git" })],
  [true, manifest({ "allowed-tools": "Bash Read" })],
  [true, manifest({ metadata: '\n  author: alice\n  version: "1.0"' })],
  [true, manifest({ description: '"Quoted: with a colon"' })],
  [true, manifest({ description: ">\n  Folded\n  text" })],
  [true, manifest({ name: "a1-b2-c3" }), "a1-b2-c3"],
  [true, manifest({ name: "x".repeat(64) }), "x".repeat(64)],
  [true, manifest({}, "")],
  [false, manifest({ name: "Release-Notes" }), "Release-Notes"],
  [false, manifest({ name: "release--notes" }), "release--notes"],
  [false, manifest({ name: "-release" }), "-release"],
  [false, manifest({ name: "x".repeat(65) }), "x".repeat(65)],
  [false, manifest({ name: "other" }), "folder"],
  [false, manifest({ description: "" })],
  [false, manifest({ description: "x".repeat(1025) })],
  [false, manifest({ compatibility: "x".repeat(501) })],
  [false, "No frontmatter at all"],
  [false, `---\nname: ${NAME}\ndescription: [unclosed\n---\n`],
  [false, `---\nname: ${NAME}\na: &a [x]\nb: *a\ndescription: bomb\n---\n`],
  [false, `---\nname: ${NAME}\ndescription: never closed\n`],
];

Deno.test("skill.validate agrees with the published validator on 22 samples, and says all that is wrong", async () => {
  const { memorySkillFiles, SkillsExtension } = await import("@modelcontextprotocol/server/ext/skills");
  await using gateway = await openGateway();
  const { alice } = await openFixture(gateway);
  for (const [n, [isValid, text, folder = NAME]] of SAMPLES.entries()) {
    const published = await SkillsExtension.load(memorySkillFiles({ [`${folder}/SKILL.md`]: text }), {
      strict: true,
      onWarning() {},
    }).then(({ entries }) => entries.length === 1, () => false);
    assert.equal(published, isValid, `sample ${n}, the validator`);
    const { valid, problems } = ok(await alice.post(`${SKILLS}/validate`, asZip({ [`${folder}/SKILL.md`]: text })));
    assert.equal(valid, isValid, `sample ${n}: ${JSON.stringify(problems)}`);
  }
  const body = asJson({ "SKILL.md": manifest({ name: "Wrong", compatibility: "x".repeat(501) }), "a//b": "x" });
  const refused = await alice.post(SKILLS, body);
  assertProblem(refused, 422, "skill_invalid");
  assert.equal(refused.body.errors.length, 3, JSON.stringify(refused.body.errors));
  const { valid, warnings } = ok(
    await alice.post(`${SKILLS}/validate`, asJson({ "SKILL.md": manifest({ colour: "red" }) })),
  );
  assert.deepEqual([valid, warnings], [true, [{ path: "SKILL.md", detail: "unknown field colour" }]]);
});

Deno.test("skills travel in archives of a tenant, and wait for an approval where they are imported", async () => {
  await using gateway = await openGateway();
  const { admin, alice } = await openFixture(gateway);
  const binary = new Uint8Array([0, 255, 1, 254]);
  const { version } = ok(await alice.post(SKILLS, asZip({ "SKILL.md": manifest(), "logo.bin": binary })));
  ok(await admin.post(`${SKILLS}/${NAME}/approve`, { digest: version.digest }));
  ok(await alice.post(SKILLS, asJson({ "SKILL.md": manifest({ name: "broken" }) })));
  const boss = await gateway.as("boss", { role: "owner" });
  const archive = (await exportTenant(gateway, boss)).replace("name: broken", "name: Broken");
  await using other = await openGateway();
  const owner = await other.as("owner", { role: "owner" });
  for (const added of [1, 0]) {
    const done = await importArchive(other, owner, "gateway", archive);
    assert.equal(done.state, "done", JSON.stringify(done));
    assert.equal(done.progress.added.skills ?? 0, added, JSON.stringify(done));
    assert.deepEqual(done.report.map(({ code }: { code: string }) => code), ["skill_invalid"]);
  }
  const { items } = ok(await owner.get(SKILLS));
  assert.deepEqual(items.map((one: Record<string, unknown>) => [one["name"], one["state"], one["digest"]]), [
    [NAME, "pending", version.digest],
  ]);
  assert.equal(ok(await owner.get(`${SKILLS}/${NAME}/file?path=logo.bin`)).content, "AP8B/g==");
  ok(await owner.delete(`${SKILLS}/${NAME}`));
  await importArchive(other, owner, "gateway", archive);
  assert.deepEqual(ok(await owner.get(SKILLS)).items, []);
});

testOnEngines("the skills of one member and its agents leave space for those of others", async (environment) => {
  await using gateway = await openGateway(environment);
  const { admin, alice, bob } = await openFixture(gateway);
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const put = (who: Caller, name: string, body?: string) =>
    who.post(SKILLS, asJson({ "SKILL.md": manifest({ name }, body) }));
  for (let n = 0; n < 10; n++) ok(await put(n % 2 === 0 ? alice : robo, `skill-${n}`));
  for (const who of [alice, robo]) assertProblem(await put(who, "skill-10"), 409, "limit_reached");
  ok(await put(bob, "of-bob"));
  // As if its versions were long.
  await gateway.app.store.write(({ db }) =>
    db.updateTable("skill_version").set({ size: 40 * 1024 * 1024 }).where("skill_name", "=", "of-bob").execute()
  );
  assertProblem(await put(bob, "more-of-bob"), 409, "limit_reached");
  // Older versions that are not attached leave their space.
  const { digest } = ok(await put(bob, "of-bob", "Another text.")).version;
  const { versions } = ok(await bob.get(`${SKILLS}/of-bob`));
  assert.deepEqual(versions.map((version: { digest: string }) => version.digest), [digest]);
  ok(await put(alice, "skill-0", "Another text."));
  ok(await put(admin, "of-admin"));
});

testOnEngines(
  "only approved versions are attached, by those who decide about the agent or the room",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { admin, alice, bob } = await openFixture(gateway);
    const roomId = await createRoom(alice, ["bob"]);
    const agent = ok(await alice.post("/v1/collaboration/principals", { kind: "agent", displayName: "Helper" })).id;
    const { digest } = ok(await bob.post(SKILLS, asJson({ "SKILL.md": manifest() }))).version;
    const attach = (who: Caller, kind: string, subjectId: string, of = digest) =>
      who.post(`${SKILLS}/${NAME}/attach`, { kind, subjectId, digest: of });
    assertProblem(await attach(alice, "room", roomId), 403, "skill_not_approved");
    ok(await admin.post(`${SKILLS}/${NAME}/approve`, { digest }));
    assertProblem(await attach(alice, "room", roomId, "0".repeat(64)), 404, "not_found");
    assertProblem(await attach(bob, "room", roomId), 403, "forbidden");
    assertProblem(await attach(bob, "agent", agent), 403, "forbidden");
    assertProblem(await attach(admin, "room", roomId), 404, "not_found");
    assertProblem(await attach(alice, "agent", "bob"), 404, "not_found");
    ok(await attach(alice, "room", roomId));
    ok(await attach(alice, "agent", agent));
    const names = async (who: Caller, query: string) =>
      ok(await who.get(`${SKILLS}?${query}`)).items.map((one: { name: string }) => one.name);
    assert.deepEqual(await names(bob, `roomId=${roomId}`), [NAME]);
    assert.deepEqual(await names(alice, `agentId=${agent}`), [NAME]);
    assertProblem(await admin.get(`${SKILLS}?roomId=${roomId}`), 404, "not_found");
    const attachments = async (who: Caller) => ok(await who.get(`${SKILLS}/${NAME}`)).attachments.length;
    assert.deepEqual([await attachments(alice), await attachments(bob), await attachments(admin)], [2, 1, 1]);
    ok(await alice.post(`${SKILLS}/${NAME}/detach`, { kind: "room", subjectId: roomId }));
    assert.deepEqual(await names(bob, `roomId=${roomId}`), []);
  },
);

Deno.test("an agent reads only attached, approved versions, step by step", async () => {
  await using fixture = await AgentFixture.open();
  const { gateway, alice, bob, agentId, roomId } = fixture;
  const admin = await gateway.as("admin", { role: "admin" });
  const put = async (name: string, body: string, isApproved = true): Promise<string> => {
    const files = { "SKILL.md": manifest({ name }, body), "references/more.md": `More of ${name}` };
    const { digest } = ok(await alice.post(SKILLS, asJson(files))).version;
    if (isApproved) ok(await admin.post(`${SKILLS}/${name}/approve`, { digest }));
    return digest;
  };
  const first = await put("own-skill", "First instructions");
  await put("not-attached", "Secret");
  ok(await alice.post(`${SKILLS}/own-skill/attach`, { kind: "agent", subjectId: agentId, digest: first }));
  // Changed files wait for an approval; the attachment pins what was approved.
  await put("own-skill", "Changed instructions", false);
  const results: string[] = [];
  const calls: [string, Record<string, unknown>][] = [
    ["skill_read", { name: "own-skill" }],
    ["skill_file", { name: "own-skill", path: "references/more.md" }],
    ["skill_file", { name: "own-skill", path: "../../secret" }],
    ["skill_read", { name: "not-attached" }],
  ];
  fixture.answer(({ last, number }) => {
    if (number > 1) results.push(last);
    const call = calls[number - 1];
    if (call === undefined) return "Done";
    const [name, input] = call;
    return { parts: [{ kind: "tool", callId: `call-${number}`, name, input: JSON.stringify(input) }] };
  });
  await fixture.mention(bob, "Write the notes");
  await fixture.settled();
  const [request] = fixture.models.calls;
  const listed = request?.request.tools?.find(({ name }) => name === "skill_read")?.description ?? "";
  assert.match(listed, /own-skill: Writes release notes/);
  assert.doesNotMatch(listed, /not-attached|First instructions/);
  assert.match(results[0] ?? "", /First instructions/);
  assert.match(results[1] ?? "", /More of own-skill/);
  assert.match(results[2] ?? "", /no such file/);
  assert.match(results[3] ?? "", /no such skill/);
  // Disabled, nobody reads it.
  ok(await alice.patch(`${SKILLS}/own-skill`, { enabled: false }));
  fixture.answer(({ toolNames }) => toolNames.includes("skill_read") ? "has" : "has not");
  await fixture.mention(bob, "Again");
  await fixture.settled("succeeded", 2);
  assert.equal((await fixture.messages()).at(-1).text, "has not");
  assert.ok(roomId);
});
