// Calls of plugins over HTTP: a POST signed by Standard Webhooks, so the plugin can verify it with a published library.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { signedHeaders } from "@/modules/webhook/mod.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import { parseResponse, type PluginTransport, timedOut } from "./transport.ts";

const RESPONSE_MAX_BYTES = 64 * 1024;

type Deps = { clock: Clock; outbound: Outbound; encryptor: Encryptor };

/** Binds an encrypted value to its plugin. */
export function encryptionContext(of: "secret" | "config", tenantId: string, pluginId: string): string {
  return `${of} ${tenantId} ${pluginId}`;
}

export function httpTransport({ clock, outbound, encryptor }: Deps): PluginTransport {
  return async ({ tenantId, id: pluginId, manifest, row }, { id, kind, data, timeoutMs, signal }) => {
    const secret = row.secret_encrypted === null
      ? undefined
      : encryptor.decrypt(row.secret_encrypted, encryptionContext("secret", tenantId, pluginId));
    if (secret === undefined || manifest.endpoint === undefined) {
      throw new Fault("plugin_failed", "The secret of the plugin cannot be read; install it again");
    }
    const now = clock.now();
    const timestamp = Math.floor(now / 1000);
    const body = JSON.stringify({ type: kind, id, timestamp: iso(now), tenantId, pluginId, data });
    try {
      const response = await outbound(manifest.endpoint, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/json",
          ...signedHeaders([secret], { id, timestamp, body }),
        },
        signal,
      }, { totalMs: timeoutMs, bodyMaxBytes: RESPONSE_MAX_BYTES });
      if (response.status === 202) {
        await response.body?.cancel();
        return { kind: "accepted" };
      }
      if (!response.ok) {
        await response.body?.cancel();
        throw new Fault("plugin_failed", `The plugin responded with status ${response.status}`);
      }
      return parseResponse(kind, await response.text());
    } catch (thrown) {
      throw signal.aborted ? timedOut() : faultOf(thrown);
    }
  };
}

/** Whatever ends a call, such as a connection that breaks in the middle of a response, is a failure of the plugin. */
function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  const code = thrown instanceof OutboundError ? thrown.code : undefined;
  if (code === "timed_out") return timedOut();
  const what = code === "response_too_large" ? "Its response is too long" : "The plugin cannot be reached";
  return new Fault("plugin_failed", what, { cause: thrown });
}
