// The keys by which push services recognise the gateway (VAPID, RFC 8292). They follow from its secret, so all nodes have them and
// nothing is stored; after a rotation the previous one still signs for who subscribed with it.
import { createECDH, hkdfSync } from "node:crypto";

const CURVE = "prime256v1";

/** The private and the public key in base64url, as browsers and push services expect them. */
export type ApplicationKey = { privateKey: string; publicKey: string };

/** One for each secret, in their order. */
export function applicationKeys(secrets: readonly Uint8Array[]): ApplicationKey[] {
  return secrets.map((secret) => {
    const pair = createECDH(CURVE);
    // All but one in 2^32 texts of 256 bits are a private key, and `setPrivateKey` throws for that one.
    pair.setPrivateKey(new Uint8Array(hkdfSync("sha256", secret, "", "web push", 32)));
    return { privateKey: pair.getPrivateKey("base64url"), publicKey: pair.getPublicKey("base64url") };
  });
}
