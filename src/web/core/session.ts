// The session of this tab: its token is in sessionStorage, never in an address.
import { signal } from "@preact/signals";
import type { Me } from "./resources.ts";

const KEY = "gateway.token";

/** The access token; empty when signed out. */
export const token = signal(sessionStorage.getItem(KEY) ?? "");
/** The caller; read after signing in. */
export const me = signal<Me | undefined>(undefined);
/** Why the last session ended. */
export const signedOutReason = signal("");

/** Starts a session. */
export function startSession(value: string): void {
  sessionStorage.setItem(KEY, value);
  signedOutReason.value = "";
  token.value = value;
}

/** Forgets the session, and everything else that this tab has stored. */
export function endSession(reason = ""): void {
  if (token.value === "") return;
  sessionStorage.clear();
  token.value = "";
  me.value = undefined;
  signedOutReason.value = reason;
}

/** The id of the caller. */
export function myId(): string {
  return me.value?.principal.id ?? "";
}

/** Whether the caller is a guest, who cannot list people. */
export function isGuest(): boolean {
  return me.value?.roles.includes("guest") === true;
}

/** Whether the caller is an administrator of its tenant. */
export function isAdmin(): boolean {
  return me.value?.roles.some((role) => role === "admin" || role === "owner") === true;
}
