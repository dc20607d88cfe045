// Web Push: notifications on browsers and devices whose client is closed.
export { pushModule } from "./module.ts";
