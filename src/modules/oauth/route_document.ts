// How the OAuth endpoints are described in the OpenAPI document; their formats are those of the standards.
import { jsonBody, jsonResponse } from "@/core/http/route.ts";

type Json = Record<string, unknown>;

const ANY_OBJECT = { type: "object", additionalProperties: true };
const ERROR = {
  type: "object",
  properties: {
    error: { type: "string", description: "Code of the error, such as `invalid_grant`" },
    error_description: { type: "string", description: "What was wrong" },
  },
  required: ["error"],
};

export function jsonResponseDocument(description: string): Json {
  return jsonResponse(description, ANY_OBJECT);
}

export function oauthErrorDocument(description: string): Json {
  return jsonResponse(description, ERROR);
}

/** A form with text fields. */
export function formDocument(fields: Readonly<Record<string, string>>, example: Json): Json {
  const properties = Object.fromEntries(
    Object.entries(fields).map(([name, description]) => [name, { type: "string", description }]),
  );
  const schema = { type: "object", properties };
  return { required: true, content: { "application/x-www-form-urlencoded": { schema, example } } };
}

export function queryDocument(fields: Readonly<Record<string, string>>): Json[] {
  return Object.entries(fields).map(([name, description]) => ({
    name,
    in: "query",
    description,
    schema: { type: "string" },
  }));
}

/** The metadata of a client; what else it has is ignored. */
export function registrationDocument(): Json {
  const properties = {
    client_name: { type: "string", description: "Name of the application, shown to people" },
    redirect_uris: { type: "array", items: { type: "string" }, description: "Where browsers may return" },
  };
  const schema = { type: "object", properties, required: ["redirect_uris"], additionalProperties: true };
  const example = { client_name: "Notes", redirect_uris: ["https://notes.example.com/callback"] };
  return jsonBody(schema, example);
}
