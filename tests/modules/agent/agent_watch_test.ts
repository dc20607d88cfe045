// People who watch a run on `/ws` and reload the page meanwhile: each has the whole text once, and sees the end.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { FakeSocket, pushesOn, sendCommand } from "../../transport/ws_harness.ts";
import { eventually, until } from "../../wait.ts";
import { AgentFixture } from "./agent_fixture.ts";
import { ok } from "../fixtures.ts";

const SEGMENTS = 3;
const WORDS = Array.from({ length: 36 }, (_, n) => `word${n} `);
const TEXT = WORDS.join("");
const isOver = (status: string): boolean => status === "succeeded";

/** A page: it subscribes, reads the run, and applies the deltas that continue its text, as the description of `run.read` says. */
class Page implements Disposable {
  text = "";
  isOver = false;
  readonly #fixture: AgentFixture;
  readonly #runId: string;
  readonly #socket = new FakeSocket();
  readonly #connection;
  #applied = 0;

  private constructor(fixture: AgentFixture, runId: string) {
    this.#fixture = fixture;
    this.#runId = runId;
    this.#connection = fixture.gateway.app.hub.open(this.#socket, { ip: "127.0.0.1" });
  }

  static async open(fixture: AgentFixture, runId: string): Promise<Page> {
    const page = new Page(fixture, runId);
    const peer = { socket: page.#socket, connection: page.#connection };
    assert.ok((await sendCommand(peer, 1, { connect: { token: fixture.bob.token } })).connect);
    const channels = [`run:${runId}`, `room:${fixture.roomId}`];
    for (const [at, channel] of channels.entries()) {
      assert.ok((await sendCommand(peer, 2 + at, { subscribe: { channel } })).subscribe);
    }
    await page.#read();
    return page;
  }

  /** What it shows now. */
  async update(): Promise<void> {
    for (const { data: { type, data } } of pushesOn(this.#socket, `run:${this.#runId}`).slice(this.#applied)) {
      if (type === "run.delta" && !this.isOver) {
        if (data.offset > this.text.length) await this.#read();
        // Not stored yet: it is read again later.
        if (data.offset > this.text.length) return;
        this.text += data.text.slice(this.text.length - data.offset);
      }
      this.#applied++;
    }
    this.isOver ||= pushesOn(this.#socket, `room:${this.#fixture.roomId}`)
      .some(({ data: { type, data } }) => type === "run.finished" && isOver(data.run.status));
  }

  /** Waits for the end of what was said so far. */
  async shows(text: string): Promise<void> {
    await eventually(async () => {
      await this.update();
      if (!this.text.endsWith(text)) await this.#read();
      assert.equal(this.text, text);
    });
  }

  [Symbol.dispose](): void {
    this.#connection.onSocketClosed();
  }

  async #read(): Promise<void> {
    const { text, status, outputMessageId } = ok(
      await this.#fixture.bob.get(`/v1/collaboration/ai/runs/${this.#runId}`),
    );
    this.isOver = isOver(status);
    this.text = this.isOver ? ok(await this.#fixture.bob.get(`/v1/messages/${outputMessageId}`)).text : text;
  }
}

testOnEngines("pages that are reloaded during a response have all of it once, and see its end", async (environment) => {
  const gates = Array.from({ length: SEGMENTS }, () => Promise.withResolvers<void>());
  const length = WORDS.length / SEGMENTS;
  const parts = gates.flatMap(({ promise }, n) => [...WORDS.slice(n * length, (n + 1) * length), () => promise]);
  await using fixture = await AgentFixture.open(() => ({ parts }), { environment });
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  using stays = await Page.open(fixture, id);
  for (const [n, { resolve }] of gates.entries()) {
    using page = await Page.open(fixture, id);
    const said = WORDS.slice(0, (n + 1) * length).join("");
    await page.shows(said);
    // It is disconnected before the next words arrive.
    page[Symbol.dispose]();
    // What was said before the other one came is not published to it; later it reads the message instead of the run.
    if (n === 0) await stays.shows(said);
    await until(async () => {
      await stays.update();
      return stays.text === said;
    }, "the page that stays shows what was said");
    resolve();
  }
  await until(async () => {
    await stays.update();
    return stays.isOver;
  });
  assert.equal(stays.text, TEXT);
  using late = await Page.open(fixture, id);
  assert.deepEqual([late.isOver, late.text], [true, TEXT.trim()]);
});
