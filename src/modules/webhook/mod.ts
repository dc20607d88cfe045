// Webhooks: events of rooms delivered to other systems, in order and at least once.
export { SlackMarkup } from "./incoming/formats/slack.ts";
export { webhookModule } from "./module.ts";
export { Webhook } from "./schema.ts";
export type { ServiceWebhooks } from "./service_webhooks.ts";
export { newSigningSecret, signedHeaders } from "./signature.ts";
