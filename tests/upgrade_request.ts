// An upgrade to a WebSocket as bytes, for tests that speak to a port by themselves.

/** The request of a client that asks for this path. */
export function encodeUpgradeRequest(path: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode([
    `GET ${path} HTTP/1.1`,
    "Host: gateway.test",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "",
    "",
  ].join("\r\n"));
}
