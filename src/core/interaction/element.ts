// Elements of messages: buttons, selects, links and forms below the text. Clients without them show the text.
import { z } from "@zod/zod";
import { FormFields, FormOptions, Label } from "./form.ts";
import { isLongerThan } from "../text/text.ts";

const ELEMENTS_MAX = 20;
const ELEMENTS_MAX_BYTES = 16 * 1024;

export const ElementId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

const id = ElementId.describe("Id of the element within its message");
const label = Label.describe("Text that people see");

export const Element = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("button").describe("Invokes an action"),
    id,
    label,
    style: z.enum(["default", "primary", "danger"]).default("default").describe("How it looks"),
    value: z.string().max(500).optional().describe("Value that is sent with the action"),
    confirm: z.string().min(1).max(200).optional().describe("Question to ask before"),
  }).meta({ id: "ButtonElement" }),
  z.strictObject({
    kind: z.literal("select").describe("Invokes an action with one of some options"),
    id,
    label,
    options: FormOptions.describe("What can be selected"),
  }).meta({ id: "SelectElement" }),
  z.strictObject({
    kind: z.literal("link").describe("Opens an address"),
    id,
    label,
    url: z.url({ protocol: /^https?$/ }).max(2000).describe("Address that it opens"),
  }).meta({ id: "LinkElement" }),
  z.strictObject({
    kind: z.literal("form").describe("Opens a form, and invokes an action with its values"),
    id,
    label,
    fields: FormFields.min(1).describe("Fields of the form"),
    submit: Label.default("Submit").describe("Text of the button that submits it"),
  }).meta({ id: "FormElement" }),
]).meta({ id: "MessageElement" });
export type Element = z.output<typeof Element>;

/** The elements of one message. */
export const Elements = z.preprocess((value, context) => {
  // Before the schema walks over it.
  if (isLongerThan(JSON.stringify(value) ?? "", ELEMENTS_MAX_BYTES)) {
    context.addIssue(`expected at most ${ELEMENTS_MAX_BYTES} bytes of JSON`);
    return [];
  }
  return value;
}, z.array(Element).max(ELEMENTS_MAX)).refine(
  (elements) => new Set(elements.map((element) => element.id)).size === elements.length,
  "expected distinct ids",
).meta({ "x-max-bytes": ELEMENTS_MAX_BYTES });
export type Elements = z.output<typeof Elements>;

/** Whether an element asks its readers for something, rather than only showing it. */
export function isInteractive({ kind }: Element): boolean {
  return kind !== "link";
}
