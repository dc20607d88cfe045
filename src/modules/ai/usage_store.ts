// SQL of usage: one row for each day, payer, agent, room and model.
import { type Kysely, sql } from "kysely";

type UsageRow = {
  tenant_id: string;
  day: string;
  principal_id: string;
  agent_id: string;
  room_id: string;
  provider: string;
  model: string;
  calls: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  /** How many of the input and output tokens are estimates, since no provider reported them. */
  estimated_tokens: number;
  cost: number;
};
export type UsageTables = { ai_usage: UsageRow };

const KEY = ["tenant_id", "day", "principal_id", "agent_id", "room_id", "provider", "model"] as const;
const COUNTS = ["calls", "input_tokens", "cached_tokens", "output_tokens", "estimated_tokens", "cost"] as const;

export type UsageColumn = "day" | "principal_id" | "agent_id" | "room_id" | "provider" | "model";
export type UsageSum = { key: string } & Pick<UsageRow, typeof COUNTS[number]>;

export class UsageStore {
  readonly #db: Kysely<UsageTables>;

  constructor(db: Kysely<UsageTables>) {
    this.#db = db;
  }

  async add(row: UsageRow): Promise<void> {
    await this.#db.insertInto("ai_usage").values(row).onConflict((conflict) =>
      conflict.columns([...KEY]).doUpdateSet((set) =>
        Object.fromEntries(COUNTS.map((name) => [name, set(`ai_usage.${name}`, "+", row[name])]))
      )
    ).execute();
  }

  /** Sums by a column, the largest number of tokens first. */
  async sums(
    tenantId: string,
    { column, from, to, principalId, limit }: {
      column: UsageColumn;
      from: string;
      to: string;
      principalId: string | undefined;
      limit: number;
    },
  ): Promise<UsageSum[]> {
    const rows = this.#db.selectFrom("ai_usage").where("tenant_id", "=", tenantId)
      .where("day", ">=", from).where("day", "<=", to);
    return await (principalId === undefined ? rows : rows.where("principal_id", "=", principalId))
      .select((row) => [
        row.ref(column).as("key"),
        ...COUNTS.map((name) => sql<number>`cast(sum(${sql.ref(name)}) as bigint)`.as(name)),
      ])
      .groupBy(column)
      .orderBy(column === "day" ? "key" : sql`sum(input_tokens + output_tokens)`, "desc")
      .orderBy("key").limit(limit).execute() as unknown as UsageSum[];
  }

  async removeBefore(day: string): Promise<void> {
    await this.#db.deleteFrom("ai_usage").where("day", "<", day).execute();
  }
}
