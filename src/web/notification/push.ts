// Push: notifications of the system also while no page of the client is open, where the gateway pushes and the browser takes them.
import { call, get } from "../core/api.ts";
import { goTo } from "../core/route.ts";
import { me } from "../core/session.ts";

/** For whom this browser is subscribed. */
const PERSON = "gateway.push";
const WORKER = "push_worker.js";

/** The page's policy allows this address of a script, and no other. */
const policy = (globalThis as unknown as TrustedTypes).trustedTypes?.createPolicy("push-worker", {
  createScriptURL: () => WORKER,
});
type TrustedTypes = {
  trustedTypes?: {
    createPolicy(name: string, rules: { createScriptURL(): string }): { createScriptURL(url: string): string };
  };
};

/** Whether the browser can show what is pushed. */
function canSubscribe(): boolean {
  return "serviceWorker" in navigator && "PushManager" in globalThis;
}

/** Subscribes this browser for the caller, or renews that; false where nothing is pushed. */
export async function subscribe(): Promise<boolean> {
  if (!canSubscribe() || me.value === undefined) return false;
  const { modules } = await get<{ modules: { push?: { publicKey?: string | null } } }>("v1/collaboration/capabilities");
  const applicationServerKey = modules.push?.publicKey;
  if (!applicationServerKey) return false;
  const registration = await navigator.serviceWorker.register(policy?.createScriptURL(WORKER) ?? WORKER, {
    type: "module",
  });
  navigator.serviceWorker.onmessage = ({ data }) => goTo(data.href);
  const person = `${me.value.tenant.id} ${me.value.principal.id}`;
  let subscription = await registration.pushManager.getSubscription();
  const key = subscription?.options.applicationServerKey;
  // The address of another person's subscription ends with it, and so does what was for another key.
  if (subscription && (localStorage.getItem(PERSON) !== person || !isKey(key, applicationServerKey))) {
    await subscription.unsubscribe();
    subscription = null;
  }
  await isActive(registration);
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const { endpoint, keys } = subscription.toJSON();
  await call("POST", "v1/collaboration/push-subscriptions", { name: browserName(), endpoint, keys });
  localStorage.setItem(PERSON, person);
  return true;
}

/** Ends the subscription of this browser; the gateway forgets it when the push service does. */
export async function unsubscribe(): Promise<void> {
  if (localStorage.getItem(PERSON) === null) return;
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  localStorage.removeItem(PERSON);
}

/** Waits for the worker: a browser subscribes only one that is active. */
function isActive({ active, installing, waiting }: ServiceWorkerRegistration): Promise<void> {
  const worker = installing ?? waiting;
  if (active !== null || worker === null) return Promise.resolve();
  return new Promise((resolve, reject) => {
    worker.onstatechange = () => {
      if (worker.state === "activated") resolve();
      if (worker.state === "redundant") reject(new Error("The browser could not start what shows notifications"));
    };
  });
}

function isKey(key: ArrayBuffer | null | undefined, expected: string): boolean {
  return key instanceof ArrayBuffer &&
    new Uint8Array(key).toBase64({ alphabet: "base64url", omitPadding: true }) === expected;
}

/** Such as "Firefox on Linux". */
function browserName(): string {
  const { userAgent } = navigator;
  const browser = ["Edg", "Firefox", "Chrome", "Safari"].find((name) => userAgent.includes(name)) ?? "Browser";
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac", "Linux"].find((name) => userAgent.includes(name));
  return `${browser === "Edg" ? "Edge" : browser}${system === undefined ? "" : ` on ${system}`}`;
}
