// The worker that renders one thumbnail.
import { serveWorker } from "@/core/worker.ts";
import { renderThumbnail } from "./render.ts";

serveWorker(renderThumbnail);
