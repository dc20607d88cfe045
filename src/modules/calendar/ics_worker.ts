// The worker that parses one iCalendar file.
import { serveWorker } from "@/core/worker.ts";
import { parseGroups } from "./ics_grouping.ts";

serveWorker(parseGroups);
