// Real texts in several languages, read at test time from Debian's fortune packages; none is part of this repository.

const ROOT = "/usr/share/games/fortunes";
const PER_LANGUAGE = 1500;
const TEXT_MAX = 4000;
// deno-lint-ignore no-control-regex
const COLOUR = /\x1b\[[0-9;]*m/g;
// deno-lint-ignore no-control-regex
const UNREADABLE = /[\0\x1b\ufffd]/;

/** Packages that must be installed for the golden queries. */
export const PACKAGES = ["fortunes", "fortunes-de", "fortunes-es", "fortunes-it", "fortunes-ru", "fortunes-zh"];

const SOURCES: Readonly<Record<string, readonly string[]>> = {
  en: ["fortunes", "computers", "science", "wisdom", "literature", "people", "food", "work", "love", "politics"],
  de: ["de"],
  es: ["es"],
  it: ["italia", "formiche", "luttazzi", "definizioni", "zuse", "leggi"],
  ru: ["ru"],
  zh: ["tang300", "song100", "chinese"],
};

/** Texts by language; `undefined` when a package is missing. */
export function readCorpus(): Map<string, string[]> | undefined {
  const texts = new Map<string, string[]>();
  for (const [language, names] of Object.entries(SOURCES)) {
    const found = [...new Set(names.flatMap((name) => listFiles(`${ROOT}/${name}`)).flatMap(splitTexts))];
    if (found.length < 500) return undefined;
    texts.set(language, found.slice(0, PER_LANGUAGE));
  }
  return texts;
}

function listFiles(path: string): string[] {
  const info = statIfExists(path);
  if (info === undefined) return [];
  if (info.isFile) return [path];
  return [...Deno.readDirSync(path)].filter(({ isFile, name }) => isFile && !/\.(dat|u8)$/.test(name))
    .map(({ name }) => `${path}/${name}`).sort();
}

function statIfExists(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function splitTexts(path: string): string[] {
  return Deno.readTextFileSync(path).split(/^%.*\n?/m).map((text) => text.replaceAll(COLOUR, "").trim())
    .filter((text) => text !== "" && text.length <= TEXT_MAX && !UNREADABLE.test(text));
}
