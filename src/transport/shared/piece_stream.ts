// A long body in pieces, as they are sent. The runtime takes a body of one piece at once and keeps it as long as its connection is open.
import { MINUTE_MS } from "@/core/time/clock.ts";

/** A shorter body costs less than a stream. */
export const LONG_BYTES = 128 * 1024;
const PIECE_BYTES = 64 * 1024;
/** A response of which nothing is read for so long is cut off. */
const STALLED_MS = MINUTE_MS;

/**
 * `onTaken` is called with the number of bytes whenever some are sent, or will not be sent. Without it the bytes are shared by
 * all responses, and none is cut off.
 */
export function pieceStream(
  bytes: Uint8Array<ArrayBuffer>,
  onTaken?: (bytes: number) => void,
  stalledMs = STALLED_MS,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const isShared = onTaken === undefined;
  const pieces = piecesOf(bytes, isShared);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const watch = (controller: ReadableStreamDefaultController): void => {
    if (isShared) return;
    timer = setTimeout(() => {
      drop();
      controller.error(new Error("The response is not read"));
    }, stalledMs);
    Deno.unrefTimer(timer);
  };
  const drop = (): void => {
    clearTimeout(timer);
    onTaken?.(pieces.splice(0).reduce((sum, { length }) => sum + length, 0));
  };
  return new ReadableStream({
    start: watch,
    pull(controller) {
      const piece = pieces.shift();
      if (piece === undefined) return;
      clearTimeout(timer);
      onTaken?.(piece.length);
      controller.enqueue(piece);
      if (pieces.length === 0) controller.close();
      else watch(controller);
    },
    cancel: drop,
  }, { highWaterMark: 0 });
}

/** Copies, unless they are shared: a part of the bytes would retain all of them, as would a closure that names them. */
function piecesOf(bytes: Uint8Array<ArrayBuffer>, isShared: boolean): Uint8Array<ArrayBuffer>[] {
  return Array.from({ length: Math.ceil(bytes.length / PIECE_BYTES) }, (_, n) => {
    const piece = bytes.subarray(n * PIECE_BYTES, (n + 1) * PIECE_BYTES);
    return isShared ? piece : new Uint8Array(piece);
  });
}
