// Files: uploaded once, attached to what people write, read by those who see that.
export { fileModule } from "./api.ts";
export { type Attachment, FileLinks, SEEN_BY_ALL, SEEN_BY_NONE } from "./links.ts";
export { FileId, FileIds, StoredFile } from "./schema.ts";
export { FileService } from "./service.ts";
export { type FileTables } from "./store.ts";
export { type FileDraft, type FileLimits, FileWriter } from "./writer.ts";
