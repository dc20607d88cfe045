// How a plugin is reached: what a transport is given, and how its responses are read.
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import { findUnsafeText, hasMoreValuesThan, isDeeperThan } from "@/core/text/text.ts";
import { ResponseInput } from "@/modules/command/mod.ts";
import type { ActivePlugin } from "./registry.ts";
import { type CallKind, Decision } from "./schema.ts";

/** A call of a plugin. `timeoutMs` is the longest wait; `signal` aborts when it is over, or when nobody waits. */
export type Call = {
  id: string;
  kind: CallKind;
  data: Record<string, unknown>;
  timeoutMs: number;
  signal: AbortSignal;
};

/** Sends a call to a plugin, and resolves to its response; `accepted` if that follows. Rejects with a Fault. */
export type PluginTransport = (plugin: ActivePlugin, call: Call) => Promise<PluginResponse>;

/** The response to wait for. It fails when the call is over, also before anything waits for it. */
export function responseTo({ signal }: Pick<Call, "signal">): PromiseWithResolvers<PluginResponse> {
  const response = Promise.withResolvers<PluginResponse>();
  response.promise.catch(() => {}); // whatever waits for it later receives it
  signal.addEventListener("abort", () => response.reject(timedOut()), { once: true });
  return response;
}

const DEPTH_MAX = 16;
const VALUES_MAX = 5000;

const Accepted = z.strictObject({ kind: z.literal("accepted") });
const Responses = z.discriminatedUnion("kind", [...ResponseInput.options, Accepted]);

export type PluginResponse = z.output<typeof Responses> | Decision;

/** The response in a JSON text, of the kind that the call expects. */
export function parseResponse(kind: CallKind, raw: string): PluginResponse {
  if (isDeeperThan(raw, DEPTH_MAX) || hasMoreValuesThan(raw, VALUES_MAX)) throw invalid("it is too complex");
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    throw invalid("it is not JSON");
  }
  if (findUnsafeText(raw, value) !== undefined) throw invalid("it has NUL or a lone surrogate");
  return checkResponse(kind, value);
}

/** The same for a parsed value. */
export function checkResponse(kind: CallKind, value: unknown): PluginResponse {
  const parsed = (kind === "message.before_send" ? Decision : Responses).safeParse(value, INPUT_ERRORS);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`${issue?.path.join("/") ?? ""}: ${issue?.message ?? "unexpected"}`);
}

function invalid(why: string): Fault {
  return new Fault("plugin_failed", `The response of the plugin is not valid: ${why}`.slice(0, 300));
}

export function timedOut(): Fault {
  return new Fault("plugin_timeout", "The plugin did not respond in time");
}
