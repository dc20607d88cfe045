// The session of this tab: its token is in sessionStorage, never in an address; for who stays signed in, also in localStorage. What
// a person has written and not sent yet is in sessionStorage as well: it outlives a reload, and an expired session, until somebody
// else signs in.
import { signal } from "@preact/signals";
import type { Me } from "./resources.ts";

const TOKEN = "gateway.token";
const PERSON = "gateway.person";
const REASON = "gateway.reason";

/** Where a person stays signed in: the token, and whose it is. */
const KEPT = "gateway.kept";

// Not where somebody has signed out.
const isNew = sessionStorage.length === 0;
if (isNew) takeKept();

/** The access token; empty when signed out. */
export const token = signal(sessionStorage.getItem(TOKEN) ?? "");
/** The caller; read after signing in. */
export const me = signal<Me | undefined>(undefined);
/** Why the last session ended. */
export const signedOutReason = sessionStorage.getItem(REASON) ?? "";

/**
 * Tabs of one gateway: a new one takes over the session of those that are open, so that links work in it, and who signs out in
 * one is signed out in all. A tab asks by null, and gets the session; a text is the person who has signed out.
 */
const tabs = new BroadcastChannel(`${TOKEN} ${location.pathname}`);
tabs.onmessage = ({ data }) => {
  if (typeof data === "string") {
    if (data === sessionStorage.getItem(PERSON)) void signOut();
  } else if (data === null) {
    if (token.value !== "") tabs.postMessage([token.value, sessionStorage.getItem(PERSON)]);
  } else if (isNew && token.value === "") {
    const [value, person] = data;
    sessionStorage.setItem(PERSON, person);
    sessionStorage.setItem(TOKEN, value);
    token.value = value;
  }
};
if (isNew && token.peek() === "") tabs.postMessage(null);

function takeKept(): void {
  const [value, person] = kept();
  if (value === "") return;
  sessionStorage.setItem(PERSON, person);
  sessionStorage.setItem(TOKEN, value);
}

function kept(): [value: string, person: string] {
  try {
    const [value, person] = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return [String(value ?? ""), String(person ?? "")];
  } catch {
    return ["", ""];
  }
}

/** Whether this session is there after the browser was closed. */
export function isKept(): boolean {
  return token.value !== "" && kept()[0] === token.value;
}

/** Keeps this session on the device, or no longer. */
export function keepSession(isWanted: boolean): void {
  if (isWanted) keep(token.peek(), sessionStorage.getItem(PERSON));
  else localStorage.removeItem(KEPT);
}

function keep(...session: readonly (string | null)[]): void {
  localStorage.setItem(KEPT, JSON.stringify(session));
}

/** Starts a session of this caller, who may stay signed in. */
export function startSession(value: string, caller: Me, stays = false): void {
  const person = `${caller.tenant.id} ${caller.principal.id}`;
  const before = sessionStorage.getItem(PERSON) ?? person;
  if (before !== person) sessionStorage.clear();
  sessionStorage.removeItem(REASON);
  sessionStorage.setItem(PERSON, person);
  sessionStorage.setItem(TOKEN, value);
  if (stays) keep(value, person);
  // Their new tabs would be those of somebody else.
  else if (kept()[1] !== person) localStorage.removeItem(KEPT);
  // What was read from the storage is somebody else's.
  if (before !== person) return location.reload();
  me.value = caller;
  token.value = value;
}

/** Ends the session of this tab, so that another one can start. */
function dropToken(): void {
  if (isKept()) keepSession(false);
  sessionStorage.removeItem(TOKEN);
  token.value = "";
}

/** Ends the session. The page is loaded again: nothing that was read stays in memory. */
export function endSession(reason = "Your session has ended. Please sign in again."): void {
  if (token.value === "") return;
  dropToken();
  sessionStorage.setItem(REASON, reason);
  location.reload();
}

/**
 * Ends the session in all tabs, and forgets everything that they have stored. `revoke` comes after that: the connections of a
 * revoked token end, which would be another reason. `next`: the place to open afterwards, instead of this one.
 */
export async function signOut(revoke?: (token: string) => Promise<unknown>, next?: string): Promise<void> {
  const { value } = token;
  const person = sessionStorage.getItem(PERSON);
  if (value === "" && person === null) return;
  // Each tab passes it on before it forgets the person, and then ignores it. Its session may have ended before.
  if (person !== null) tabs.postMessage(person);
  // Before the storage is cleared: what changes while there is a token is stored.
  dropToken();
  sessionStorage.clear();
  sessionStorage.setItem(REASON, "You are signed out.");
  try {
    await revoke?.(value);
  } finally {
    if (next === undefined) location.reload();
    else location.assign(next);
  }
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

/** Whether it has a place in the administration: auditors read the audit log. */
export function mayAdministrate(): boolean {
  return isAdmin() || me.value?.roles.includes("auditor") === true;
}
