// Transfers: the history of a team brought in from elsewhere, and taken out as a file that comes back in.
export { type Transfer, transferModule } from "./api.ts";
export { TRANSFER_EVENTS } from "./schema.ts";
