// Entry point of the rendering worker.
import { serveWorker } from "@/core/worker.ts";
import { render } from "./rendering.ts";

serveWorker(render);
