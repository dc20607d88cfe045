// The operator's provider of models, from its settings.
import { z } from "@zod/zod";
import type { ModelConfig, ModelEndpoint, OperatorProvider } from "@/ports/model.ts";
import { ConfigError } from "./secret.ts";

const BASE_URLS: Readonly<Record<ModelEndpoint["kind"], string>> = {
  openai: "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com/v1",
  google: "https://generativelanguage.googleapis.com/v1beta",
};
const DEFAULTS = { chat: { contextTokens: 32_000 }, embedding: { contextTokens: 8000 } };
const PROPERTIES: Readonly<Record<string, keyof ModelConfig>> = {
  context: "contextTokens",
  input: "inputPrice",
  cached: "cachedInputPrice",
  output: "outputPrice",
  images: "images",
};

type AiSettings = {
  SVC_AI_KIND: ModelEndpoint["kind"];
  SVC_AI_BASE_URL?: string | undefined;
  SVC_AI_MODEL: readonly ModelConfig[];
  SVC_AI_EMBEDDING_MODEL: readonly ModelConfig[];
};

/** A list of models such as `small context=128000 input=0.25 cached=0.025 output=2, large images=0`; prices are per million tokens. */
export function aiModels(kind: ModelConfig["kind"]): z.ZodType<readonly ModelConfig[], string> {
  return z.string().transform((text, context) => {
    const models = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
      .map((part) => parseModel(part, kind));
    if (models.every((model) => model !== undefined)) return models;
    context.addIssue(
      "a comma-separated list of models, each a name and optionally context (tokens), images (0 for none), input, cached " +
        "and output (prices per million tokens), such as: small context=128000 input=0.25 output=2, large",
    );
    return z.NEVER;
  });
}

/** The provider; `undefined` where no model is set. */
export function operatorProvider(settings: AiSettings, apiKey: string | undefined): OperatorProvider | undefined {
  const { SVC_AI_KIND: kind, SVC_AI_BASE_URL: given } = settings;
  const models = [...settings.SVC_AI_MODEL, ...settings.SVC_AI_EMBEDDING_MODEL];
  if (models.length === 0) {
    if (given === undefined && apiKey === undefined) return undefined;
    throw new ConfigError("SVC_AI_MODEL is missing: SVC_AI_BASE_URL and SVC_AI_API_KEY need the name of a model");
  }
  if (new Set(models.map(({ id }) => id)).size < models.length) {
    throw new ConfigError("SVC_AI_MODEL is not valid: expected each model once, also in SVC_AI_EMBEDDING_MODEL");
  }
  if (given === undefined && apiKey === undefined) {
    throw new ConfigError("SVC_AI_API_KEY is missing: it is optional only with SVC_AI_BASE_URL");
  }
  const baseUrl = given ?? BASE_URLS[kind];
  // The operator allows the address by setting it.
  return { kind, baseUrl, apiKey, models, allowHosts: [new URL(baseUrl).hostname.replace(/^\[|\]$/g, "")] };
}

function parseModel(text: string, kind: ModelConfig["kind"]): ModelConfig | undefined {
  const [id = "", ...parts] = text.split(/\s+/);
  const model: ModelConfig = { id, kind, ...DEFAULTS[kind] };
  for (const part of parts) {
    const [name = "", value = ""] = part.split("=", 2);
    const property = PROPERTIES[name];
    if (property === undefined || !/^\d{1,9}(?:\.\d{1,6})?$/.test(value)) return undefined;
    Object.assign(model, { [property]: property === "images" ? value !== "0" : Number(value) });
  }
  const isValid = /^[\w./:@-]{1,100}$/.test(id) && Number.isInteger(model.contextTokens) && model.contextTokens >= 256;
  return isValid ? model : undefined;
}
