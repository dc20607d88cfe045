// Fields that records of several kinds have.
import { z } from "@zod/zod";
import { INPUT_ERRORS } from "../input/input_error.ts";

/** A version or another counter; a column has room for twice as many. */
export const Counter = z.int().min(0).max(2 ** 30);
/**
 * A list of any length, of which only the first invalid item is reported: an array of the schema library reports each, which
 * takes a hundred times as long as to read them.
 */
export function listOf<Item extends z.ZodType>(item: Item): z.ZodType<z.output<Item>[]> {
  return z.array(z.unknown()).transform((values, context) => {
    const items: z.output<Item>[] = [];
    for (const [index, value] of values.entries()) {
      const parsed = item.safeParse(value, INPUT_ERRORS);
      if (!parsed.success) {
        const [issue] = parsed.error.issues;
        context.addIssue({ code: "custom", path: [index, ...issue?.path ?? []], message: issue?.message });
        return z.NEVER;
      }
      items.push(parsed.data);
    }
    return items;
  });
}
