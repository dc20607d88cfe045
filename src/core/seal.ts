// Sealing what must not lie readable, and stamping what must not be made up: with keys derived from the gateway's secret, of
// whom each use has its own.
import { Buffer } from "node:buffer";
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** 132 bits. */
const STAMP_CHARS = 22;

/** Seals with the first secret, opens with any: those before it are of earlier days. */
export class Seal {
  readonly #keys: readonly Uint8Array[];

  /** `label` says what it is for; a seal of another label opens nothing of this one. */
  constructor(secrets: readonly Uint8Array[], label: string) {
    this.#keys = keysOf(secrets, label);
  }

  /** The text, readable only by `open` with the same `about`. */
  seal(text: string, about: string): string {
    const [key] = this.#keys;
    if (key === undefined) throw new TypeError("Expected a secret to seal with");
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(about));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
  }

  /** The text that was sealed; `undefined` when the secret has changed since, or it is no such text. */
  open(sealed: string, about: string): string | undefined {
    const bytes = Buffer.from(sealed, "base64url");
    const [nonce, tag, rest] = [
      bytes.subarray(0, NONCE_BYTES),
      bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES),
      bytes.subarray(NONCE_BYTES + TAG_BYTES),
    ];
    if (tag.length < TAG_BYTES) return undefined;
    for (const key of this.#keys) {
      try {
        const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(about))
          .setAuthTag(tag);
        return Buffer.concat([decipher.update(rest), decipher.final()]).toString("utf8");
      } catch {
        // Not this key's.
      }
    }
    return undefined;
  }
}

/** Stamps with the first secret, takes the stamps of any: those before it are of earlier days. */
export class Stamp {
  readonly #keys: readonly Uint8Array[];

  /** `label` says what it is for; a stamp of another label is none of this one. */
  constructor(secrets: readonly Uint8Array[], label: string) {
    this.#keys = keysOf(secrets, label);
  }

  /** What only the gateway can say of the text; always the same. */
  stamp(text: string): string {
    const [key] = this.#keys;
    if (key === undefined) throw new TypeError("Expected a secret to stamp with");
    return macOf(key, text);
  }

  /** Whether it is the stamp of the text. */
  isOf(stamp: string, text: string): boolean {
    const given = Buffer.from(stamp);
    return this.#keys.some((key) => {
      const expected = Buffer.from(macOf(key, text));
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
  }
}

function keysOf(secrets: readonly Uint8Array[], label: string): Uint8Array[] {
  return secrets.map((secret) => new Uint8Array(hkdfSync("sha256", secret, "", label, 32)));
}

function macOf(key: Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url").slice(0, STAMP_CHARS);
}
