// Transfers: the history of a team brought in from elsewhere, and taken out as a file that comes back in.
export { transferModule } from "./api.ts";
