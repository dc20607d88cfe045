// The worker that parses one iCalendar file.
import { serveWorker } from "@/core/worker.ts";
import { parseGroups } from "./grouping.ts";

serveWorker(parseGroups);
