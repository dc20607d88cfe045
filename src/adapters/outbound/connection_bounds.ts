// Bounds what a server sends besides the body of its response, such as informational responses without end, or a chunk whose size
// does not end: the runtime reads that as fast as it comes, and gives out none of it.
import type http from "node:http";
import { OutboundError } from "@/ports/outbound.ts";

/** Read of a connection before the response begins. */
const HEAD_MAX_BYTES = 256 * 1024;
/** Read for each byte of the body: chunks of one byte need six. */
const BYTES_PER_BODY_BYTE = 8;
/** Servers send one or two of these responses before the one that counts. */
const INFORMATIONAL_MAX = 16;

/** Calls `end` with the reason once the server exceeds a bound. */
export function boundConnection(
  request: http.ClientRequest,
  bodyMaxBytes: number,
  end: (reason: OutboundError) => void,
): void {
  let hasBegun = false;
  let bytes = 0;
  let informational = 0;
  request.on("response", () => hasBegun = true);
  request.on("information", () => {
    if (++informational > INFORMATIONAL_MAX) end(tooMuch());
  });
  request.on("upgrade", (_response, socket) => {
    socket.destroy();
    end(new OutboundError("connection_failed", "The server switched to another protocol"));
  });
  request.on("socket", (socket) => {
    socket.on("data", ({ length }: Uint8Array) => {
      bytes += length;
      if (bytes > HEAD_MAX_BYTES + (hasBegun ? BYTES_PER_BODY_BYTE * bodyMaxBytes : 0)) end(tooMuch());
    });
  });
}

function tooMuch(): OutboundError {
  return new OutboundError("response_too_large", "The server sent too much besides the body of its response");
}
