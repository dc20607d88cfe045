// Golden queries: real texts in six languages, an oracle without shared code, recall and precision for each engine.
import assert from "node:assert/strict";
import type { ApiResponse, Caller } from "../harness.ts";
import { engines, fillRoom, printLine, waitForIndex } from "./search_engines.ts";
import { PACKAGES, readCorpus } from "./search_corpus.ts";
import { startStopwatch } from "../cpu_time.ts";
import { search as searchUntilComplete } from "../modules/fixtures.ts";
import { slowTest } from "../tier.ts";

const RECALL_MIN = 0.98;
const PRECISION_MIN = 0.9;
const TOP = 10;

/** The meaning of a query: all whole words, a part of a word, words in this order, or parts without others. */
const KINDS = ["words", "part", "phrase", "without"] as const;
type Kind = (typeof KINDS)[number];

const QUERIES: Readonly<Record<string, Readonly<Record<Kind, readonly string[]>>>> = {
  en: {
    words: [
      "terminal",
      "Dijkstra",
      "HACKER",
      "student",
      "usenet",
      "error data",
      "long life",
      "know everyone",
      "manual",
    ],
    part: ["lesser", "ograms", "compan", "understa"],
    phrase: ['"of course"', '"at least"'],
    without: ["terminal -computer", "computer -program", "-people life -LOVE"],
  },
  de: {
    words: ["Sahne", "trägt", "TRAGT", "gießen", "giessen", "mannschaft", "keine frage", "Frauen", "tatsachlich"],
    part: ["schreib", "deutsch", "ueber", "ließ"],
    phrase: ['"mit einem"', '"auf dem"'],
    without: ["frauen -männer", "deutsch -Spräche", "mannschaft -spiel"],
  },
  es: {
    words: ["corazon", "corazón", "AMISTAD", "aristoteles", "pequeño", "religión", "buen amigo", "manana", "belleza"],
    part: ["escrit", "filosof", "pensa"],
    phrase: ['"la verdad"', '"el mundo"'],
    without: ["corazon -amor", "verdad -MENTIRA"],
  },
  it: {
    words: ["macchina", "genitori", "solitudine", "SCUOLA", "figlio", "cane", "paradiso", "storia"],
    part: ["veloc", "dirett", "mattin"],
    phrase: ['"non si"'],
    without: ["scuola -anni", "figlio -padre"],
  },
  ru: {
    words: ["жизнь", "Человек", "СВОБОДЫ", "книги", "идет", "лучше", "дети"],
    part: ["свобод", "путе", "стано"],
    phrase: ['"тем более"', '"не только"'],
    without: ["жизнь -смерт", "человек -ЛЮД"],
  },
  zh: {
    words: [],
    part: ["键盘", "路由器", "系统", "明月", "春", "春风", "可执行", "方便", "山", "故人"],
    phrase: ['"不知"'],
    without: ["春 -风", "明月 -山", "系统 -文件"],
  },
};

const normalize = (text: string): string =>
  text.toLowerCase().normalize("NFD").replaceAll(/\p{Mn}/gu, "").replaceAll("ß", "ss");

/** Texts as they are compared; both engines ask the same ones the same questions. */
const foldedTexts = new Map<string, { line: string; words: ReadonlySet<string> }[]>();

function foldTexts(texts: readonly string[], language: string): { line: string; words: ReadonlySet<string> }[] {
  const segmenter = new Intl.Segmenter(language, { granularity: "word" });
  return texts.map((text) => {
    const folded = normalize(text);
    const words = new Set([...segmenter.segment(folded)].map(({ segment }) => segment));
    return { line: folded.replaceAll(/\s+/g, " "), words };
  });
}

/** Indexes of the matching texts, found by a full scan. */
function relevant(texts: readonly string[], language: string, kind: Kind, question: string): Set<number> {
  const plain = normalize(question.replaceAll('"', ""));
  const phrase = new RegExp(`(?<![a-zа-я])${plain}`);
  const folded = foldedTexts.get(language) ?? foldTexts(texts, language);
  foldedTexts.set(language, folded);
  const answers = folded.map(({ line, words }) => {
    if (kind === "part") return line.includes(plain);
    if (kind === "without") {
      return plain.split(" ").every((word) =>
        word.startsWith("-") ? !line.includes(word.slice(1)) : line.includes(word)
      );
    }
    if (kind === "phrase") return phrase.test(line);
    return plain.split(" ").every((word) => words.has(word));
  });
  return new Set(answers.flatMap((isAnswer, place) => isAnswer ? [place] : []));
}

async function search(who: Caller, body: Record<string, unknown>): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page = { ...body, limit: 100, ...(cursor === null ? {} : { cursor }) };
    const { items, nextCursor }: ApiResponse["body"] = await searchUntilComplete(who, page);
    ids.push(...items.map((item: { message: { id: string } }) => item.message.id));
    cursor = nextCursor;
  } while (cursor !== null);
  return ids;
}

const texts = readCorpus();

for (const { name, open } of engines) {
  const title = `search answers the golden questions in six languages (${name})`;
  if (texts === undefined) {
    Deno.test.ignore(`${title}: needs the Debian packages ${PACKAGES.join(" ")}`, () => {});
    continue;
  }
  slowTest(title, async () => {
    await using opened = await open();
    const { gateway } = opened;
    const alice = await gateway.as("alice");
    await alice.get("/v1/rooms");
    let [questions, recall, precision, precisionOfAll] = [0, 0, 0, 0];
    const all = [...texts.values()].reduce((sum, some) => sum + some.length, 0);
    assert.ok(all >= 5000, `${all} texts`);
    const filled = new Map<string, { roomId: string; ids: string[] }>();
    for (const [language, some] of texts) filled.set(language, await fillRoom(gateway, alice, some));
    const took = startStopwatch();
    await waitForIndex(alice);
    const indexing = took();
    for (const [language, byKind] of Object.entries(QUERIES)) {
      const { roomId, ids } = filled.get(language) ?? { roomId: "", ids: [] };
      const some: readonly string[] = texts.get(language) ?? [];
      for (const kind of KINDS) {
        for (const query of byKind[kind]) {
          const wanted: Set<string | undefined> = new Set(
            [...relevant(some, language, kind, query)].map((place) => ids[place]),
          );
          assert.ok(wanted.size > 0, `no text answers ${query}, so it shows nothing`);
          if (kind === "without") {
            const asked = query.split(" ").filter((word) => !word.startsWith("-")).join(" ");
            assert.ok(wanted.size < relevant(some, language, kind, asked).size, `${query} leaves nothing out`);
          }
          const filters = { roomIds: [roomId] };
          const found = await search(alice, { query, filters, sort: "recent" });
          const best = (await search(alice, { query, filters, sort: "relevance" })).slice(0, TOP);
          assert.equal(new Set(found).size, found.length, `${query}: no doubles`);
          const right = found.filter((id) => wanted.has(id)).length;
          if (kind === "without") assert.equal(right, found.length, `${query} finds what it must not`);
          const rightAtTop = best.filter((id) => wanted.has(id)).length;
          questions++;
          recall += right / wanted.size;
          precisionOfAll += found.length === 0 ? 0 : right / found.length;
          precision += rightAtTop / Math.max(1, Math.min(TOP, wanted.size, best.length));
          if (right < wanted.size) printLine(`  ${language} ${query}: ${right} of ${wanted.size}`);
        }
      }
    }
    const [r, p, a] = [recall, precision, precisionOfAll].map((sum) => sum / questions);
    printLine(
      `  ${name}: ${questions} questions over ${all} messages: recall ${
        r?.toFixed(3)
      }, precision of the first ${TOP} ` +
        `${p?.toFixed(3)}, of all found ${a?.toFixed(3)}; caught up in ${indexing}`,
    );
    assert.ok(questions >= 60, `${questions} questions`);
    assert.ok(r !== undefined && r >= RECALL_MIN, `recall ${r}`);
    assert.ok(p !== undefined && p >= PRECISION_MIN, `precision ${p}`);
  });
}
