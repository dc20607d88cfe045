// Secrets that sign calls of endpoints: stored encrypted, and returned only when they are created.
import { HOUR_MS, iso } from "@/core/time/clock.ts";
import type { EncryptedColumn, Encryptor } from "@/core/crypto.ts";
import { OVERLAP_HOURS } from "./schema.ts";
import { newSigningSecret } from "./signature.ts";
import type { WebhookRow } from "./tables.ts";

/** Secrets that sign besides the newest one. */
const PREVIOUS_MAX = 3;

type SecretColumns = Pick<
  WebhookRow,
  "tenant_id" | "id" | "secret_encrypted" | "previous_secret_encrypted" | "previous_until"
>;

export class Secrets {
  readonly #encryptor: Encryptor;

  constructor(encryptor: Encryptor) {
    this.#encryptor = encryptor;
  }

  /** A new secret, and the column that stores it. */
  create({ tenant_id, id }: Pick<WebhookRow, "tenant_id" | "id">): { secret: string; encrypted: string } {
    const secret = newSigningSecret();
    return { secret, encrypted: this.encrypt({ tenant_id, id }, secret) };
  }

  /** A new secret beside those before, which sign as well for a while, and the columns that store them. */
  rotate(row: SecretColumns, now: number): { secret: string; columns: Omit<SecretColumns, "tenant_id" | "id"> } {
    const { secret, encrypted } = this.create(row);
    // A rotation whose answer was lost is repeated: what the receiver has is then not the last one.
    const before = this.of(row, now)?.slice(0, PREVIOUS_MAX);
    const columns = {
      secret_encrypted: encrypted,
      previous_secret_encrypted: before === undefined ? null : this.encrypt(row, before.join(" ")),
      previous_until: iso(now + OVERLAP_HOURS * HOUR_MS),
    };
    return { secret, columns };
  }

  /** The column that stores a given secret. */
  encrypt(of: Pick<WebhookRow, "tenant_id" | "id">, secret: string): string {
    return this.#encryptor.encrypt(secret, secretContext(of));
  }

  /** The columns of a table that has them. */
  columnsOf(table: string): EncryptedColumn[] {
    return ["secret_encrypted", "previous_secret_encrypted"].map((column) => ({
      table,
      column,
      encryptor: this.#encryptor,
      contextOf: secretContext,
    }));
  }

  /** The secrets that sign now, the newest first; `undefined` if they cannot be read: the gateway's own secret was replaced. */
  of(row: SecretColumns, now: number): string[] | undefined {
    const context = secretContext(row);
    const secret = this.#encryptor.decrypt(row.secret_encrypted, context);
    if (secret === undefined) return undefined;
    const isOverlapping = row.previous_until !== null && Date.parse(row.previous_until) > now;
    const previous = isOverlapping && row.previous_secret_encrypted !== null
      ? this.#encryptor.decrypt(row.previous_secret_encrypted, context)
      : undefined;
    return previous === undefined ? [secret] : [secret, ...previous.split(" ")];
  }
}

/** What an encrypted secret belongs to. */
export function secretContext({ tenant_id, id }: Pick<WebhookRow, "tenant_id" | "id">): string {
  return `${tenant_id}/${id}`;
}
