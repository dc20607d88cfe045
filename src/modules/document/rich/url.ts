// Addresses in links and images.

const SAFE_SCHEMES = new Set(["http", "https", "mailto", "tel", "ftp", "xmpp"]);

/** An address that runs no code; `undefined` for others. Browsers ignore blanks and control characters before a scheme and in it. */
export function safeUrl(url: string): string | undefined {
  const visible = url.replaceAll(/[\p{Cc}\s]/gu, "");
  const colon = visible.indexOf(":");
  if (colon < 0) return url;
  // Before these, a colon is part of a path.
  const isRelative = visible.slice(0, colon).split("").some((char) => "/?#".includes(char));
  return isRelative || SAFE_SCHEMES.has(visible.slice(0, colon).toLowerCase()) ? url : undefined;
}
