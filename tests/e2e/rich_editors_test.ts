// The editors that teams use, unmodified, in a real browser: two people each, a REST client and an agent between them, while a
// node is killed and they go to another one, and all nodes are killed and start again. All see the same, nothing is lost, and
// nothing is there twice.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { hasBrowser } from "../browser.ts";
import { allEnded } from "../wait.ts";
import { focusBlock, focusEnd, holds, run, seen, type, typeAtEndOf } from "./editors/keys.ts";
import { type EditorName, Session } from "./editors/session.ts";
import { Stage } from "./editors/stage.ts";

/** The browser is driven through pipes and timers that outlive single calls. */
const options = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false };
const EDITORS: readonly EditorName[] = ["tiptap", "blocknote", "codemirror", "quill"];
/** Undo joins what was done within this time, which is a second in Quill. */
const UNDO_MS = 1200;
/** Where editors show the names of others. */
const CURSORS: Readonly<Record<EditorName, string>> = {
  tiptap: ".collaboration-carets__label",
  blocknote: ".bn-collaboration-cursor__label",
  codemirror: ".cm-ySelectionInfo",
  quill: ".ql-cursor-name",
};

function openSession(stage: Stage, editor: EditorName): Promise<Session> {
  const isRich = editor === "tiptap" || editor === "blocknote";
  return Session.open(stage, editor, isRich ? { kind: "rich" } : { kind: "text", text: "Hello\n" });
}

/** Both write into one document, while a REST client and an agent edit it. */
async function writeTogether(session: Session): Promise<void> {
  const [ada, bob] = [session.page("ada"), session.page("bob")];
  if (session.kind === "rich") {
    await focusEnd(ada);
    await type(ada, "Hello");
  }
  await typeAtEndOf(ada, "Hello", " from Ada.");
  await focusBlock(bob, "from Ada.");
  await bob.keyboard.press("Enter");
  await type(bob, "Bob was here.");
  await seen(ada, "Bob was here.");
  await allEnded([
    typeAtEndOf(ada, "from Ada", " She types on."),
    typeAtEndOf(bob, "Bob was", " He types as well."),
    session.edit("bob", { op: "replace", find: "Hello", with: "Greetings" }),
    session.edit("bot", { op: "append", text: "Written by an agent.\n" }),
  ]);
  await session.converged(
    "Greetings from Ada. She types on.",
    "Bob was here. He types as well.",
    "Written by an agent.",
  );
  const names = `[...document.querySelectorAll("${CURSORS[session.editor]}")].map((one) => one.textContent)`;
  await holds(ada, `${names}.some((name) => name.includes("bob"))`);
}

async function format(session: Session): Promise<void> {
  const [ada, bob] = [session.page("ada"), session.page("bob")];
  await run(ada, "bold", "Greetings");
  // The tables of Quill are not made for several writers: its page may show others than its Yjs has.
  if (session.editor !== "quill") await run(bob, "table");
  await focusBlock(ada, "Written");
  await ada.keyboard.press("Enter");
  await run(ada, "tasks");
  await type(ada, "Check this");
  const text = await session.converged("Greetings", "Check this", "Written by an agent.");
  if (session.editor === "quill") {
    const operations = await ada.evaluate("editorPage.read()") as {
      insert: string;
      attributes?: Record<string, unknown>;
    }[];
    assert.deepEqual(operations[0], { attributes: { bold: true }, insert: "Greetings" });
    assert.ok(operations.some(({ attributes }) => attributes?.["list"] === "unchecked"));
    return;
  }
  const markdown = session.kind === "rich" ? (await session.read("markdown")).text : text;
  for (const part of [/\*\*Greetings\*\*/, /- \[ \] Check this/, /\| - +\| - +\|/]) assert.match(markdown, part);
}

/** Takes back only what the person did who undoes it. */
async function undo(session: Session): Promise<void> {
  const [ada, bob] = [session.page("ada"), session.page("bob")];
  await bob.waitForTimeout(UNDO_MS);
  await focusBlock(bob, "Bob was");
  await bob.keyboard.insertText(" Regretted.");
  await seen(ada, "Regretted.");
  await typeAtEndOf(ada, "She types", " and on");
  await seen(bob, "She types on. and on");
  await bob.keyboard.press("Control+z");
  const text = await session.converged("She types on. and on", "He types as well.");
  assert.ok(!text.includes("Regretted"), text);
  await session.screenshot("together");
  await session.visit("ada");
  assert.equal(await session.converged(), text);
}

async function typeOffline(session: Session, round: number): Promise<void> {
  await Promise.all([
    typeAtEndOf(session.page("ada"), "She types", ` Ada in round ${round}.`),
    typeAtEndOf(session.page("bob"), "Bob was", ` Bob in round ${round}.`),
  ]);
}

async function editBetween(session: Session, round: number): Promise<void> {
  await session.edit("bob", { op: "insert_after", find: "Written by an agent.", text: ` REST in round ${round}.` });
  await session.edit("bot", { op: "append", text: `Agent in round ${round}.\n` });
}

/** What was typed and edited in this round and those before is there once. */
async function assertWritten(session: Session, rounds: number): Promise<void> {
  const words = ["Greetings", "She types on. and on", "He types as well.", "Check this", "Written by an agent."];
  for (let round = 1; round <= rounds; round++) {
    words.push(...["Ada", "Bob", "REST", "Agent"].map((who) => `${who} in round ${round}.`));
  }
  await session.converged(...words);
  await session.screenshot(`round_${rounds}`);
  for (const person of ["ada", "bob"] as const) {
    assert.deepEqual(await session.page(person).evaluate("editorPage.status().refused"), []);
  }
}

/** Waits until a page says to its reader that the content was refused. */
async function refused(page: Page): Promise<void> {
  await holds(page, "document.querySelector('p')?.textContent.includes('refused: content-refused')");
}

Deno.test({
  ...options,
  ignore: !hasBrowser,
  name:
    "two people, a REST client and an agent write in TipTap, BlockNote, CodeMirror and Quill, whatever node is killed",
  async fn(test) {
    await using stage = await Stage.open(EDITORS);
    const { cluster } = stage;
    const sessions = await Promise.all(EDITORS.map((editor) => openSession(stage, editor)));
    /** Runs a part with all editors at once. */
    const inAll = async (what: string, part: (session: Session) => Promise<void>): Promise<void> => {
      const results = await Promise.all(
        sessions.map((session) =>
          test.step({ ...options, name: `${session.editor}: ${what}`, fn: () => part(session) })
        ),
      );
      assert.ok(results.every((isOk) => isOk), what);
    };
    await inAll("two people, a REST client and an agent write", writeTogether);
    await inAll("text is formatted, with a table and a list of tasks", format);
    await inAll("one person undoes, the other reloads", undo);

    // Ada's node is killed, and she reconnects to that of Bob. Where there is only one, it starts again.
    await stage.kill(0);
    if (cluster.nodes.length === 1) await inAll("both type without a server", (session) => typeOffline(session, 1));
    else await inAll("one types without a server", (session) => typeOffline(session, 1));
    if (cluster.nodes.length === 1) await cluster.node(0).start();
    await inAll("a REST client and an agent edit", (session) => editBetween(session, 1));
    stage.pointTo(stage.node);
    await inAll("all is there after a change of nodes", (session) => assertWritten(session, 1));

    await stage.kill(stage.node);
    await inAll("both type without any server", (session) => typeOffline(session, 2));
    stage.node = 0;
    await cluster.node(0).start();
    await inAll("a REST client and an agent edit after a restart", (session) => editBetween(session, 2));
    stage.pointTo(0);
    await inAll("all is there after a restart of all nodes", (session) => assertWritten(session, 2));

    await Promise.all([
      test.step({ ...options, name: "quill: an image is refused visibly", fn: () => refuseImage(sessions) }),
      test.step({ ...options, name: "tiptap: a text document is refused visibly", fn: () => refuseText(stage) }),
    ]);
  },
});

/** Quill in which one person inserts what a text document does not have, and the other continues. */
async function refuseImage(sessions: readonly Session[]): Promise<void> {
  const session = sessions.find(({ editor }) => editor === "quill");
  assert.ok(session);
  await run(session.page("ada"), "image");
  await refused(session.page("ada"));
  const bob = session.page("bob");
  await typeAtEndOf(bob, "Bob was", " Still here.");
  await holds(bob, "editorPage.status().isSaved");
  const { text } = await session.read();
  assert.equal(text.split("Still here.").length, 2, text);
}

async function refuseText(stage: Stage): Promise<void> {
  const session = await Session.open(stage, "tiptap", { kind: "text", text: "plain" }, ["ada"]);
  const ada = session.page("ada");
  await focusEnd(ada);
  await type(ada, "lost?");
  await refused(ada);
  const [reason = ""] = await ada.evaluate("editorPage.status().closed") as string[];
  assert.match(reason, /create a document of the kind rich/);
  await session.screenshot("refused");
  assert.equal((await session.read()).text, "plain");
}
