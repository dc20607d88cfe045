// Ports for servers that start a moment after their port was chosen, or again on the same one.
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Below the ephemeral ports of systems, among them all connections that tests open meanwhile. */
const RANGE = { first: 10_000, count: 20_000 };
/** Where all runs of tests write down which port was chosen last. */
const LAST_PORT = join(tmpdir(), `gateway-test-port-${Deno.uid() ?? 0}`);

/** A port nobody listens on just now, and no test chooses before all others have had their turn. */
export function freePort(): number {
  using file = Deno.openSync(LAST_PORT, { read: true, write: true, create: true });
  // Released when the file is closed.
  file.lockSync(true);
  const text = new Uint8Array(8);
  const length = file.readSync(text) ?? 0;
  let offset = length === 0 ? Deno.pid : Number(new TextDecoder().decode(text.subarray(0, length))) - RANGE.first;
  do offset = (offset + 1) % RANGE.count; while (!isFree(RANGE.first + offset));
  file.seekSync(0, Deno.SeekMode.Start);
  file.writeSync(new TextEncoder().encode(String(RANGE.first + offset)));
  return RANGE.first + offset;
}

function isFree(port: number): boolean {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return false;
    throw error;
  }
}
