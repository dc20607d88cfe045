// The worker that makes one picture small.
import { answerOrder } from "@/core/worker.ts";
import { render } from "./render.ts";

answerOrder(render);
