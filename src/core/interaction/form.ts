// Forms: a few typed fields that a command, a form of a message or the configuration of a plugin asks for, and their values.
import { z } from "@zod/zod";
import { Fault, type FieldFault } from "../fault.ts";
import { boundedRecord } from "../json.ts";
import { jsonPointer } from "../text/text.ts";

export const FIELDS_MAX = 10;
const OPTIONS_MAX = 25;
const LABEL_MAX = 80;
const VALUE_MAX = 4000;

export const FieldName = z.string().regex(
  /^[A-Za-z][A-Za-z0-9_]{0,31}$/,
  "expected a letter, then at most 31 letters, digits or _",
);
export const Label = z.string().min(1).max(LABEL_MAX);

const FormOption = z.strictObject({
  value: z.string().min(1).max(LABEL_MAX).describe("Value that is sent if it is selected"),
  label: Label.describe("Text that people see"),
}).meta({ id: "FormOption" });
export const FormOptions = z.array(FormOption).min(1).max(OPTIONS_MAX).refine(
  (options) => new Set(options.map(({ value }) => value)).size === options.length,
  "expected distinct values",
);

const common = {
  name: FieldName.describe("Name of the value"),
  label: Label.describe("Text that people see"),
  required: z.boolean().default(false).describe("Whether a value must be given"),
};

export const FormField = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("text").describe("A text"),
    ...common,
    maxLength: z.int().min(1).max(VALUE_MAX).default(VALUE_MAX).describe("Maximum number of characters"),
    multiline: z.boolean().default(false).describe("Whether line breaks are expected"),
  }).meta({ id: "TextField" }),
  z.strictObject({
    kind: z.literal("number").describe("A number"),
    ...common,
    min: z.number().optional().describe("Lowest value"),
    max: z.number().optional().describe("Highest value"),
  }).meta({ id: "NumberField" }),
  z.strictObject({ kind: z.literal("boolean").describe("True or false"), ...common }).meta({ id: "BooleanField" }),
  z.strictObject({
    kind: z.literal("select").describe("One of some options, or several"),
    ...common,
    options: FormOptions.describe("What can be selected"),
    multiple: z.boolean().default(false).describe("Whether several can be selected; the value is then a list"),
  }).meta({ id: "SelectField" }),
]).meta({ id: "FormField" });
export type FormField = z.output<typeof FormField>;

export const FormFields = z.array(FormField).max(FIELDS_MAX).refine(
  (fields) => new Set(fields.map(({ name }) => name)).size === fields.length,
  "expected distinct names",
);

const FormValue = z.union([
  z.string().max(VALUE_MAX),
  z.number(),
  z.boolean(),
  z.array(z.string().max(LABEL_MAX)).max(OPTIONS_MAX),
]).meta({ id: "FormValue" });
/** Values by the names of their fields. */
export const FormValues = boundedRecord(FieldName, FormValue, FIELDS_MAX, "values")
  .describe("Values by the names of the fields");
export type FormValues = z.output<typeof FormValues>;

/** The values, checked against the fields; throws `validation_failed` with every error. `pointer`: where they are in the input. */
export function checkValues(fields: readonly FormField[], values: FormValues, pointer: string): FormValues {
  const known = new Map(fields.map((field) => [field.name, field]));
  const errors = [
    ...Object.keys(values).filter((name) => !known.has(name)).map((name) => [name, "unknown field"] as const),
    ...fields.flatMap((field) => {
      const error = errorOf(field, values[field.name]);
      return error === undefined ? [] : [[field.name, error] as const];
    }),
  ].map(([name, detail]): FieldFault => ({ pointer: pointer + jsonPointer([name]), code: "invalid_value", detail }));
  if (errors.length > 0) throw Fault.forFields(errors);
  return values;
}

function errorOf(field: FormField, value: FormValues[string] | undefined): string | undefined {
  if (value === undefined || value === "") return field.required ? "required" : undefined;
  switch (field.kind) {
    case "text":
      if (typeof value !== "string") return "expected a text";
      return value.length > field.maxLength ? `expected at most ${field.maxLength} characters` : undefined;
    case "number": {
      const { min = -Infinity, max = Infinity } = field;
      if (typeof value !== "number") return "expected a number";
      return value < min || value > max ? `expected a number from ${min} to ${max}` : undefined;
    }
    case "boolean":
      return typeof value === "boolean" ? undefined : "expected true or false";
    case "select": {
      const given = field.multiple ? value : [value];
      if (!Array.isArray(given)) return "expected a list";
      const options = new Set(field.options.map((option) => option.value));
      if (field.required && given.length === 0) return "required";
      return given.every((one) => options.has(one as string)) && new Set(given).size === given.length
        ? undefined
        : "expected one of the options";
    }
  }
}
