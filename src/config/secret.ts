// Secrets of the environment: checks of their length and randomness, and the generated secret of development.
import { dirname } from "node:path";
import { outsideDirectories } from "./permission_hint.ts";

/** A setting that stops the start. The message names the variable and what it accepts, never its value. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

const SECRET_MIN_BYTES = 32;
const DISTINCT_MIN = 8;
const LENGTH_MIN = 16;
/** Prefix of the secrets in `.env.example`, which are public. */
const PLACEHOLDER = "replace-this-";
/** Words in secrets that people invent; too long to occur in random text. */
const WORDS =
  /secret|passw|change.?me|example|replace|default|qwerty|letmein|gateway|develop|collab|12345678|abcdefgh/i;

/** The bytes of a secret, raw or `base64:<text>`; outside development it must be random, too. */
export function secretBytes(name: string, text: string, isDevelopment: boolean): Uint8Array {
  const invalid = new ConfigError(`${name} is not valid: expected at least 32 bytes, raw or as base64:<text>`);
  let bytes: Uint8Array;
  try {
    bytes = text.startsWith("base64:") ? Uint8Array.fromBase64(text.slice(7)) : new TextEncoder().encode(text);
  } catch {
    throw invalid;
  }
  if (bytes.length < SECRET_MIN_BYTES) throw invalid;
  if (!isDevelopment) assertRandomSecret(name, new TextDecoder("latin1").decode(bytes));
  return bytes;
}

/** Rejects a secret of `.env.example`. */
export function rejectExampleSecret(name: string, text: string): void {
  if (text.startsWith(PLACEHOLDER)) throw notRandom(name);
}

/** Rejects guessable secrets: words, sequences, repetitions and short ones. */
export function assertRandomSecret(name: string, text: string): void {
  if (text.length < LENGTH_MIN || isGuessable(text)) throw notRandom(name);
}

function notRandom(name: string): ConfigError {
  return new ConfigError(`${name} is not valid: expected a random secret, such as the output of openssl rand -hex 32`);
}

function isGuessable(text: string): boolean {
  // A repetition occurs in its own double before the end.
  const repeatsItself = (text + text).indexOf(text, 1) < text.length;
  const codes = [...text].map((character) => character.charCodeAt(0));
  const steps = codes.slice(1).filter((code, at) => Math.abs(code - (codes[at] ?? 0)) <= 1).length;
  return repeatsItself || steps > codes.length / 2 || new Set(codes).size < DISTINCT_MIN || WORDS.test(text);
}

/** A secret that is generated once and stored beside the data, so that tokens survive a restart in development. */
export function developmentSecret(path: string, warnings: string[]): Uint8Array {
  try {
    const stored = new TextEncoder().encode(Deno.readTextFileSync(path).trim());
    if (stored.length >= SECRET_MIN_BYTES) return stored;
  } catch (thrown) {
    if (thrown instanceof Deno.errors.NotCapable) {
      throw new ConfigError(outsideDirectories("SVC_DATA_DIR", dirname(path)));
    }
    if (!(thrown instanceof Deno.errors.NotFound)) {
      throw new ConfigError(`${path} cannot be read: set SVC_JWT_SECRET or repair the file`, { cause: thrown });
    }
    return newDevelopmentSecret(path, warnings);
  }
  throw new ConfigError(`${path} has less than ${SECRET_MIN_BYTES} bytes: set SVC_JWT_SECRET or delete the file`);
}

function newDevelopmentSecret(path: string, warnings: string[]): Uint8Array {
  const text = crypto.getRandomValues(new Uint8Array(32)).toHex();
  try {
    Deno.mkdirSync(dirname(path), { recursive: true });
    Deno.writeTextFileSync(path, text, { mode: 0o600, createNew: true });
  } catch (cause) {
    throw new ConfigError(
      "SVC_DATA_DIR: the development secret cannot be stored in this directory; set SVC_JWT_SECRET",
      { cause },
    );
  }
  warnings.push(`SVC_JWT_SECRET is not set: generated a development secret in ${path}`);
  return new TextEncoder().encode(text);
}
