// Files: uploaded once, attached to messages and other resources, readable for readers of these.
export { type FileModule, fileModule } from "./module.ts";
export { FileArchiveStore } from "./archive_store.ts";
export { type Attachment, eraseBlobs, FileAttachments, HIDDEN_SEQ } from "./attachments.ts";
export { type MayShow, type NamedFiles, namedFiles, uploadedBy } from "./named_files.ts";
export { type ImageOfFile, imagesForModel } from "./model_images.ts";
export { isTextual } from "./content_type.ts";
export { textsForModel } from "./model_texts.ts";
export { enforceMinimumRate } from "./upload.ts";
export { FileIds } from "./schema.ts";
export { type QuotaHolder, QuotaStore, withQuota } from "./quota_store.ts";
export type { FileService } from "./service.ts";
export { type FileRow, type FileTables } from "./store.ts";
export { type FileWriter, sweepJob } from "./writer.ts";
