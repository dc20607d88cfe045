// Web Push: notifications on browsers and devices whose client is closed.
export { pushModule } from "./module.ts";
export { applicationKeys } from "./application_keys.ts";
export type { PushSettings } from "./service.ts";
