// Fixture: a gateway, and a room with one member of each role.
import assert from "node:assert/strict";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";

type Callers = ReadonlyMap<string, Caller>;
type RoomFixtureOptions = {
  environment?: Record<string, string>;
  /** Of the room, besides its name. */
  room?: Record<string, unknown>;
  /** Of further members. */
  names?: readonly string[];
};

export class RoomFixture {
  readonly gateway: Harness;
  readonly roomId: string;
  readonly #callers: Callers;

  constructor(gateway: Harness, roomId: string, callers: Callers) {
    this.gateway = gateway;
    this.roomId = roomId;
    this.#callers = callers;
  }

  /** Opens a world of the class that it is called on. */
  static async open<World extends RoomFixture>(
    this: new (gateway: Harness, roomId: string, callers: Callers) => World,
    { environment = {}, room = {}, names = [] }: RoomFixtureOptions = {},
  ): Promise<World> {
    const gateway = await openGateway(environment);
    const callers = new Map<string, Caller>();
    for (const name of ["owner", "moderator", "member", "observer", "outsider", ...names]) {
      const caller = await gateway.as(name);
      // A principal exists from its first call on.
      ok(await caller.get("/v1/collaboration/me"));
      callers.set(name, caller);
    }
    const owner = callers.get("owner");
    assert.ok(owner);
    const { id } = ok(
      await owner.post("/v1/rooms", { name: "Operations", memberIds: ["member", ...names], ...room }),
      201,
    );
    for (const role of ["moderator", "observer"]) {
      ok(await owner.put(`/v1/rooms/${id}/members/${role}`, { role }), 201);
    }
    return new this(gateway, id, callers);
  }

  /** `owner`, `moderator`, `member`, `observer`, or `outsider`, who is in the tenant but not in the room. */
  as(name: string): Caller {
    const caller = this.#callers.get(name);
    assert.ok(caller, name);
    return caller;
  }

  /** The events of a module in the room so far. */
  async readModuleEvents(module: string): Promise<ApiResponse["body"][]> {
    const found: ApiResponse["body"][] = [];
    for (let isMore = true; isMore;) {
      const after = found.at(-1)?.seq ?? 0;
      const { events, complete } = ok(
        await this.as("owner").get(`/v1/rooms/${this.roomId}/events?after=${after}&limit=300`),
      );
      found.push(...events);
      isMore = !complete;
    }
    return found.filter((event) => event.type.startsWith(`${module}.`));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.gateway[Symbol.asyncDispose]();
  }
}

/** The body of a response with this status; throws with the body when it has another. */
export function ok(answer: ApiResponse, status = 200): ApiResponse["body"] {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
}
