// Notifications: a durable list per principal, to which any module adds.
export { type NotificationModule, notificationModule } from "./module.ts";
export { type NotificationDraft, NotificationService, type Notify } from "./service.ts";
export { type NotificationRow, type NotificationTables, unreadNotifications } from "./store.ts";
