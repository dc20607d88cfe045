// The cookie of a browser that signs in at the identity provider: a sealed attempt while the person is there, then one half of the code.
import { Cookie } from "@/core/http/cookie.ts";

/** How long a person may take at the provider. */
export const SIGN_IN_SECONDS = 600;

export const SIGN_IN_COOKIE = new Cookie({
  name: "svc_sign_in",
  path: "/v1/collaboration/auth",
  // The provider's redirect is a navigation from another site.
  sameSite: "Lax",
  seconds: SIGN_IN_SECONDS,
});
