// Random changes by several principals: at any time each of them meets exactly the facts that a model of the rights says, on every
// path, and a context has none besides.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { allEnded } from "../../wait.ts";
import { createRoom, ok, sendMessage } from "../fixtures.ts";
import { foundTexts, ITEMS, listedTexts } from "./memory_fixture.ts";

const NAMES = ["root", "alice", "bob", "carol", "gus", "robo"] as const;
type Name = typeof NAMES[number];
const PEOPLE: readonly Name[] = ["root", "alice", "bob", "carol", "gus"];
const MOVING: readonly Name[] = ["alice", "bob", "carol", "gus", "robo"];
const ROOMS = ["shared", "joined", "public"] as const;
type RoomName = typeof ROOMS[number];
const WORD = "quokka";

/** What somebody does: the numbers choose among what is possible at that time. */
type Step = { deed: number; who: number; what: number; with: number };

type ModelMessage = { id: string; room: RoomName; at: number; isDeleted: boolean };
type ModelFact = {
  id: string;
  text: string;
  scope: { type: "room" | "principal" | "agent" | "tenant"; name: string };
  at: number;
  sources: ModelMessage[];
  subjects: Name[];
  status: "proposed" | "active" | "superseded" | "forgotten";
  by: Name;
};

/** Who may see what, by the rules of the documents. Time is counted in steps: who joined later does not see what was before. */
class World {
  readonly ids = new Map<RoomName, string>();
  /** By room and member, when they joined. */
  readonly joined = new Map<RoomName, Map<Name, number>>();
  readonly messages: ModelMessage[] = [];
  readonly facts: ModelFact[] = [];
  now = 1;

  constructor(readonly gateway: Harness, readonly callers: Record<Name, Caller>) {}

  /** When the history that is visible begins; `undefined` if the room is not visible. */
  startOf(who: Name, room: RoomName): number | undefined {
    const own = this.#startOf(who, room);
    if (who !== "robo") return own;
    const owners = this.#startOf("alice", room);
    const isMember = this.joined.get(room)?.has("robo") === true && this.joined.get(room)?.has("alice") === true;
    return isMember && own !== undefined && owners !== undefined ? Math.max(own, owners) : undefined;
  }

  #startOf(who: Name, room: RoomName): number | undefined {
    const joined = this.joined.get(room)?.get(who);
    if (joined === undefined) return room === "public" && who !== "gus" && who !== "robo" ? 0 : undefined;
    return room === "joined" ? joined : 0;
  }

  sees(who: Name, { scope, sources, subjects, at }: ModelFact): boolean {
    const isSeen = (room: RoomName, time: number): boolean => time > (this.startOf(who, room) ?? Infinity);
    const hasSource = sources.length === 0 || sources.some((one) => !one.isDeleted && isSeen(one.room, one.at));
    if (!hasSource) return false;
    const isSubject = who !== "robo" && subjects.includes(who);
    if (scope.type === "principal") return scope.name === who;
    if (scope.type === "agent") return who === "alice" || who === "robo" || isSubject;
    if (scope.type === "tenant") return who !== "gus" || isSubject;
    const room = scope.name as RoomName;
    return sources.length > 0 ? this.startOf(who, room) !== undefined : isSeen(room, at);
  }

  activeTexts(who: Name): string[] {
    return this.facts.filter((fact) => fact.status === "active" && this.sees(who, fact)).map(({ text }) => text).sort();
  }
}

async function openWorld(environment: Record<string, string>): Promise<World> {
  const gateway = await openGateway(environment);
  const claims = { root: { role: "admin" }, gus: { role: "guest" }, robo: { kind: "agent", owner: "alice" } } as const;
  const callers = {} as Record<Name, Caller>;
  for (const name of NAMES) {
    callers[name] = await gateway.as(name, name in claims ? claims[name as keyof typeof claims] : {});
    ok(await callers[name].get("/v1/collaboration/me"));
  }
  const world = new World(gateway, callers);
  const options = { shared: {}, joined: { historyVisibility: "joined" }, public: { visibility: "public" } };
  for (const room of ROOMS) {
    world.ids.set(room, await createRoom(callers.root, ["alice", "bob"], options[room]));
    world.joined.set(room, new Map<Name, number>([["root", 0], ["alice", 0], ["bob", 0]]));
  }
  return world;
}

function pick<Item>(items: readonly Item[], n: number): Item | undefined {
  return items[n % Math.max(1, items.length)];
}

async function take(world: World, { deed, who: n, what, with: m }: Step): Promise<void> {
  const { callers, facts, messages } = world;
  world.now++;
  const room = pick(ROOMS, what) ?? "shared";
  const roomId = world.ids.get(room) ?? "";
  const members = world.joined.get(room) ?? new Map<Name, number>();
  const person = pick(PEOPLE, n) ?? "root";
  const mover = pick(MOVING, n) ?? "bob";
  const fact = pick(facts.filter(({ status }) => status === "active" || status === "proposed"), m);
  switch (deed) {
    case 0: {
      if (members.has(mover) || mover === "robo" && !members.has("alice")) return;
      const adder = mover === "robo" ? callers.alice : callers.root;
      const { status } = await adder.put(`/v1/rooms/${roomId}/members/${mover}`);
      // Members may not add others everywhere.
      if (mover === "robo" && status === 403) ok(await callers.root.put(`/v1/rooms/${roomId}/members/robo`));
      members.set(mover, world.now);
      return;
    }
    case 1:
      if (!members.has(mover)) return;
      ok(await callers.root.delete(`/v1/rooms/${roomId}/members/${mover}`));
      members.delete(mover);
      if (mover === "alice") members.delete("robo");
      return;
    case 2: {
      if (!members.has(person)) return;
      const { id } = await sendMessage(callers[person], roomId, `message ${world.now}`);
      messages.push({ id, room, at: world.now, isDeleted: false });
      return;
    }
    case 3: {
      const message = pick(messages.filter(({ isDeleted }) => !isDeleted), what);
      if (message === undefined) return;
      ok(await callers.root.delete(`/v1/messages/${message.id}`));
      message.isDeleted = true;
      return;
    }
    case 4:
    case 5:
    case 6:
      return await record(world, n % 7 === 6 ? "robo" : person, what, m);
    case 7: {
      if (fact === undefined || fact.status !== "active" || fact.scope.type !== "room") return;
      const scopeRoom = fact.scope.name as RoomName;
      if (!world.sees(person, fact) || world.joined.get(scopeRoom)?.has(person) !== true) return;
      return await record(world, person, ROOMS.indexOf(scopeRoom), m, fact);
    }
    case 8: {
      if (fact === undefined) return;
      const mayForget = world.sees(person, fact) && (fact.by === person && isWriter(world, person, fact) ||
        fact.subjects.includes(person) && fact.scope.type !== "principal");
      const { status } = await callers[person].delete(`${ITEMS}/${fact.id}`);
      if (!world.sees(person, fact)) assert.equal(status, 404);
      if (mayForget) assert.equal(status, 204);
      if (status === 204) fact.status = "forgotten";
      return;
    }
    case 9: {
      if (fact?.status !== "proposed") return;
      assert.ok([403, 404].includes((await callers.robo.patch(`${ITEMS}/${fact.id}`, { status: "active" })).status));
      const { status } = await callers[person].patch(`${ITEMS}/${fact.id}`, { status: "active" });
      if (!world.sees(person, fact)) assert.equal(status, 404);
      if (status === 200) fact.status = "active";
      return;
    }
    default:
      await world.gateway.runJobs();
  }
}

/** Whether a member of the room of a fact, or its principal, is still that. */
function isWriter(world: World, who: Name, { scope }: ModelFact): boolean {
  return scope.type !== "room" || world.joined.get(scope.name as RoomName)?.has(who) === true;
}

async function record(world: World, by: Name, what: number, m: number, old?: ModelFact): Promise<void> {
  const room = pick(ROOMS, what) ?? "shared";
  const isMember = world.startOf(by, room) !== undefined && world.joined.get(room)?.has(by) === true;
  const types = [
    ...isMember ? ["room", "room"] as const : [],
    ...by === "robo" ? [] : ["principal"] as const,
    ...by === "alice" || by === "robo" ? ["agent"] as const : [],
    ...by === "root" ? ["tenant", "tenant"] as const : [],
  ];
  const type = old === undefined ? pick(types, m) : "room";
  if (type === undefined) return;
  const visible = world.messages.filter((one) =>
    !one.isDeleted && one.at > (world.startOf(by, one.room) ?? Infinity) && (type !== "room" || one.room === room)
  );
  const wanted = by === "robo" ? 1 + m % 2 : m % 3;
  const sources = visible.filter((_, at) => (at + m) % 2 === 0).slice(0, wanted);
  // A guest can name only principals that it shares a room with, which changes.
  const subjects = NAMES.filter((name, at) => by === "gus" ? name === by : (m + at) % 4 === 0);
  const text = `${WORD} ${world.now}`;
  const scope = {
    room: { type, id: world.ids.get(room) },
    principal: { type },
    agent: { type, id: "robo" },
    tenant: { type },
  }[type];
  const answer = await world.callers[by].post(ITEMS, {
    scope,
    text,
    subjectIds: subjects,
    sourceMessageIds: sources.map(({ id }) => id),
    ...old === undefined ? {} : { supersedes: old.id },
  });
  if (by === "robo" && sources.length === 0) return assert.equal(answer.status, 422);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const name = type === "room" ? room : type === "principal" ? by : type;
  const status = by === "robo" ? "proposed" : "active";
  world.facts.push({ id: answer.body.id, text, scope: { type, name }, at: world.now, sources, subjects, status, by });
  if (old !== undefined && status === "active") old.status = "superseded";
}

async function check(world: World): Promise<void> {
  await allEnded(NAMES.map((name) => checkFor(world, name)));
}

async function checkFor(world: World, name: Name): Promise<void> {
  const who = world.callers[name];
  const expected = world.activeTexts(name);
  assert.deepEqual(await listedTexts(who), expected, `${name} lists`);
  assert.deepEqual(await foundTexts(who, `${WORD} facts`), expected, `${name} finds`);
  await allEnded(world.facts.map(async (fact) => {
    const { body } = await who.get(`${ITEMS}/${fact.id}`);
    const isRead = body.text === fact.text;
    assert.equal(isRead, fact.status !== "forgotten" && world.sees(name, fact), `${name} reads ${fact.text}`);
    if (!isRead) return assert.ok(!JSON.stringify(body).includes(WORD));
    const visible = fact.sources.filter((one) =>
      !one.isDeleted && one.at > (world.startOf(name, one.room) ?? Infinity)
    );
    assert.deepEqual(
      body.sources.map((one: { messageId: string }) => one.messageId).sort(),
      visible.map(({ id }) => id).sort(),
    );
  }));
  for (const room of ROOMS) {
    const answer = await who.post("/v1/collaboration/context", {
      roomId: world.ids.get(room),
      query: WORD,
      budgetTokens: 8000,
    });
    if (world.startOf(name, room) === undefined) {
      assert.equal(answer.status, 404, `${name} in ${room}`);
      continue;
    }
    const texts = [...JSON.stringify(ok(answer).items).matchAll(/quokka \d+/g)].map(([text]) => text);
    for (const text of texts) assertMayTell(world, name, room, text);
  }
}

/** A fact in a context is active, and for all who read it: of an agent's, all members of the room. */
function assertMayTell(world: World, teller: Name, room: RoomName, text: string): void {
  const fact = world.facts.find((one) => one.text === text);
  assert.ok(fact?.status === "active", `${teller} in ${room}: ${text}`);
  const members = [...world.joined.get(room)?.keys() ?? []];
  // What an agent itself has noted, it may repeat to those who may read a source of it.
  const toAll: ModelFact = fact.scope.type === "agent" ? { ...fact, subjects: [...NAMES] } : fact;
  for (const reader of teller === "robo" ? members : [teller]) {
    const isTold: boolean = reader === "robo" || reader === teller
      ? world.sees(reader, fact)
      : world.sees(reader, toAll);
    assert.ok(isTold, `${teller} tells ${reader} in ${room}: ${text}`);
  }
}

/** Small numbers are not more likely: what they choose is not either. */
const number = fc.noBias(fc.nat(9999));
const step = fc.record({ deed: fc.noBias(fc.integer({ min: 0, max: 10 })), who: number, what: number, with: number });

testOnEngines("after random changes, each principal meets exactly the facts that it may read", async (environment) => {
  const isPostgres = environment["SVC_DATABASE_URL"] !== undefined;
  await fc.assert(
    fc.asyncProperty(fc.noBias(fc.array(step, { minLength: 27, maxLength: 36 })), async (steps) => {
      const world = await openWorld(isPostgres ? environment : {});
      await using _ = world.gateway;
      for (const [at, one] of steps.entries()) {
        await take(world, one);
        if (at % 12 === 11 || at === steps.length - 1) await check(world);
      }
    }),
    // One database of PostgreSQL serves one run.
    { numRuns: isPostgres ? 1 : 2, endOnFailure: true },
  );
});
