// Notifications: a durable list per principal, to which any module adds.
export { notificationModule } from "./module.ts";
export { type NotificationDraft, NotificationService, type Notify } from "./service.ts";
export { type NotificationTables, unreadNotifications } from "./store.ts";
