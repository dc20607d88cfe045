// Sync: one answer from which a client goes on, over `/ws` or by asking again, without a hole and without a double.
export { syncModule } from "./api.ts";
export { SyncService } from "./service.ts";
export { StreamWatch } from "./watch.ts";
