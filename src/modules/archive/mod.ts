// Import and export: the history of a team from other systems, and archives of our own that can be imported again.
export { archiveModule } from "./module.ts";
export { ArchiveFault } from "./import/report.ts";
export { ZipArchive } from "./format/zip.ts";
