// Where browsers and applications reach the gateway.
const LOOPBACK_ORIGIN = /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/;

/** The public address; without one, that of the machine it runs on, if the request was sent to that. */
export function publicAddressOf(request: Request, publicUrl: string | undefined): string | undefined {
  if (publicUrl !== undefined) return publicUrl;
  const { origin } = new URL(request.url);
  return LOOPBACK_ORIGIN.test(origin) ? origin : undefined;
}
