// The worker that reads the JSON files of one archive.
import { serveWorker } from "@/core/worker.ts";
import { JsonItemParser, type ParseRequest } from "./json_items.ts";

const reader = new JsonItemParser();
serveWorker((order: ParseRequest) => reader.read(order));
