// Headers of every answer: correlation, and what keeps a browser from misusing an answer.

/** Fresh headers for one exchange; answers add to them or replace single ones. */
export function baseHeaders(requestId: string): Record<string, string> {
  return {
    "X-Request-Id": requestId,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
  };
}
