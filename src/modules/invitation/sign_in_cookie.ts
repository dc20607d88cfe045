// The cookie of a browser that signs in at the identity provider: a sealed attempt while the person is there, then one half of the code.
const NAME = "svc_sign_in";
const VALUE = new RegExp(`(?:^|; ?)${NAME}=([\\w-]{1,1000})(?:;|$)`);

/** The text of a cookie with this value; its attributes follow. */
export function signInCookie(value: string): string {
  return `${NAME}=${value}`;
}

/** The value that the browser sent. */
export function readSignInCookie(request: Request): string | undefined {
  return VALUE.exec(request.headers.get("Cookie") ?? "")?.[1];
}
