// Import and export: the history of a team from other systems, and archives of our own that can be imported again.
export { transferModule } from "./module.ts";
export { ArchiveFault } from "./fault.ts";
export { ZipArchive } from "./format/zip.ts";
