// Web Push, from its settings.
import { applicationKeys, type PushSettings } from "@/modules/push/mod.ts";

/** Of Chrome and most others, Firefox, Safari and Edge. */
export const PUSH_HOSTS = [
  "fcm.googleapis.com",
  "push.services.mozilla.com",
  "push.apple.com",
  "notify.windows.com",
];

/** How notifications are pushed; `undefined` where no contact is set. */
export function pushSettings(
  { SVC_PUSH_CONTACT: contact, SVC_PUSH_HOSTS: hosts }: {
    SVC_PUSH_CONTACT?: string | undefined;
    SVC_PUSH_HOSTS: readonly string[];
  },
  secrets: readonly Uint8Array[],
): PushSettings | undefined {
  return contact === undefined ? undefined : { contact, hosts, keys: applicationKeys(secrets) };
}
