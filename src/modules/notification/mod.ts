// Notifications: the durable list of what a principal should look at, whichever module says so.
export { notificationModule } from "./api.ts";
export { type NotificationDraft, NotificationService, type Notify } from "./service.ts";
export { type NotificationTables } from "./store.ts";
