// Access tokens of authorized applications. They have a form and a key of their own, so only `/mcp` can read them: to the API
// and to `/ws` they are no tokens at all.
import { z } from "@zod/zod";
import type { Signer } from "@/core/crypto.ts";

/** No other token starts with this. */
const PREFIX = "svcmcp_";
const TOKEN = /^svcmcp_([A-Za-z0-9_-]{1,2000})\.([A-Za-z0-9_-]{22})$/;
const TOKEN_MAX_CHARS = 2048;

const AccessToken = z.strictObject({
  tenantId: z.string(),
  principalId: z.string(),
  tokenId: z.string(),
  /** The resource that it is for. */
  aud: z.string(),
  /** ms since the epoch. */
  exp: z.number(),
});
type AccessToken = z.output<typeof AccessToken>;

export function isAccessToken(token: string): boolean {
  return token.startsWith(PREFIX);
}

export function signAccessToken(signer: Signer, content: AccessToken): string {
  const text = new TextEncoder().encode(JSON.stringify(content)).toBase64({ alphabet: "base64url", omitPadding: true });
  return `${PREFIX}${text}.${signer.sign(text)}`;
}

/** The content of a token that is genuine, expired or not; `undefined` for any other text. */
export function readAccessToken(signer: Signer, token: string): AccessToken | undefined {
  const [, text = "", signature = ""] = token.length > TOKEN_MAX_CHARS ? [] : TOKEN.exec(token) ?? [];
  if (!signer.verify(signature, text)) return undefined;
  return AccessToken.parse(
    JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text, { alphabet: "base64url" }))),
  );
}
