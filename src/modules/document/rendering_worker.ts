// The worker that renders one text.
import { answerOrder } from "@/core/worker.ts";
import { render } from "./rendering.ts";

answerOrder(render);
