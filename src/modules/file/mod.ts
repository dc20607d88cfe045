// Files: uploaded once, attached to what people write, read by those who see that.
export { fileModule } from "./api.ts";
export { LinkService } from "./link/service.ts";
export { type Attachment, FileLinks, SEEN_BY_NONE } from "./links.ts";
export { steady } from "./receive.ts";
export { FileIds } from "./schema.ts";
export { FileService } from "./service.ts";
export { type FileTables } from "./store.ts";
export { FileWriter } from "./writer.ts";
