// Encryption of stored secrets and signatures of tokens, with a key for each purpose, derived from the gateway's secrets.
import { Buffer } from "node:buffer";
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** 132 bits. */
const SIGNATURE_CHARS = 22;

/** AES-256-GCM. Encrypts with the first secret, decrypts with any: the others are from before a rotation. */
export class Encryptor {
  readonly #keys: readonly Uint8Array[];

  /** `label` names the purpose; keys of different labels are independent. */
  constructor(secrets: readonly Uint8Array[], label: string) {
    this.#keys = deriveKeys(secrets, label);
  }

  /** Encrypts a text; only `decrypt` with the same `context` reads it. */
  encrypt(text: string, context: string): string {
    const [key] = this.#keys;
    if (key === undefined) throw new TypeError("Expected an encryption secret");
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(context));
    const encrypted = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString("base64url");
  }

  /** The text that was encrypted; `undefined` when no secret fits, or it is no such text. */
  decrypt(encrypted: string, context: string): string | undefined {
    for (const key of this.#keys) {
      const text = decryptWith(key, encrypted, context);
      if (text !== undefined) return text;
    }
    return undefined;
  }

  /** Encrypts again what an earlier secret encrypted; `undefined` if the first one did, or none fits. */
  renew(encrypted: string, context: string): string | undefined {
    const [first] = this.#keys;
    if (first === undefined || decryptWith(first, encrypted, context) !== undefined) return undefined;
    const text = this.decrypt(encrypted, context);
    return text === undefined ? undefined : this.encrypt(text, context);
  }
}

/** Texts that a module stores encrypted, in a table whose key is the tenant and an id. */
export type EncryptedColumn = {
  table: string;
  column: string;
  encryptor: Encryptor;
  contextOf: (row: { tenant_id: string; id: string }) => string;
};

function decryptWith(key: Uint8Array, encrypted: string, context: string): string | undefined {
  const bytes = Buffer.from(encrypted, "base64url");
  const [nonce, tag, rest] = [
    bytes.subarray(0, NONCE_BYTES),
    bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES),
    bytes.subarray(NONCE_BYTES + TAG_BYTES),
  ];
  if (tag.length < TAG_BYTES) return undefined;
  try {
    const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(context))
      .setAuthTag(tag);
    return Buffer.concat([decipher.update(rest), decipher.final()]).toString("utf8");
  } catch {
    return undefined; // Another key's.
  }
}

/** HMAC-SHA-256. Signs with the first secret, verifies with any: the others are from before a rotation. */
export class Signer {
  readonly #keys: readonly Uint8Array[];

  /** `label` names the purpose; keys of different labels are independent. */
  constructor(secrets: readonly Uint8Array[], label: string) {
    this.#keys = deriveKeys(secrets, label);
  }

  /** The signature of the text; always the same. */
  sign(text: string): string {
    const [key] = this.#keys;
    if (key === undefined) throw new TypeError("Expected a signing secret");
    return computeMac(key, text);
  }

  /** Whether it is a signature of the text. */
  verify(signature: string, text: string): boolean {
    const given = Buffer.from(signature);
    return this.#keys.some((key) => {
      const expected = Buffer.from(computeMac(key, text));
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
  }
}

/** SHA-256. Of secrets it is enough only where they are too random to be guessed. */
export function hashText(text: string, encoding: "hex" | "base64url" = "hex"): string {
  return createHash("sha256").update(text).digest(encoding);
}

function deriveKeys(secrets: readonly Uint8Array[], label: string): Uint8Array[] {
  return secrets.map((secret) => new Uint8Array(hkdfSync("sha256", secret, "", label, 32)));
}

function computeMac(key: Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url").slice(0, SIGNATURE_CHARS);
}
