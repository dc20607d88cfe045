// Compares the secrets of the nodes on one bus: with different ones, a token of one node is refused by the next.
import { Signer } from "@/core/crypto.ts";
import { defineSignal, type Signal } from "@/core/event/event.ts";
import { logOf } from "@/core/log.ts";
import { type Bus, CONTROL_TOPIC } from "@/ports/bus.ts";

const nodeStarted = defineSignal("node_started");
/** The reply of a node with another secret, so that the log of the node that started says so as well. */
const secretDiffers = defineSignal("secret_differs");
const TEXT = "the secret of this node";

const log = logOf("main");

/** Warns, here and there, once for each secret that another node has and this one does not know. */
export async function compareSecrets(bus: Bus, secrets: readonly Uint8Array[]): Promise<void> {
  const signer = new Signer(secrets, "node");
  const warned = new Set<string>();
  const send = (signal: Signal): void => bus.publish(CONTROL_TOPIC, { kind: "signal", signal });
  await bus.subscribe(CONTROL_TOPIC, (message) => {
    if (message.kind !== "signal") return;
    const { signal } = message;
    const hasStarted = nodeStarted.matches(signal);
    if (!hasStarted && !secretDiffers.matches(signal) || signer.verify(signal.id, TEXT)) return;
    if (hasStarted) send(secretDiffers.create("", signer.sign(TEXT)));
    if (warned.has(signal.id)) return;
    warned.add(signal.id);
    log.warn(
      "another gateway on this Redis database has another SVC_JWT_SECRET: nodes of one deployment need the same one, and each " +
        "deployment a database number of its own in SVC_REDIS_URL",
    );
  });
  send(nodeStarted.create("", signer.sign(TEXT)));
}
