// The model of a benchmark, as a process of its own: says one word after the other until nobody listens.
import { setPriority } from "node:os";
import { ModelServer } from "../model_server.ts";
import { pause } from "../wait.ts";

/** What a fast model says to one client. */
const WORDS_PER_SECOND = 50;
/** More than any run is measured. */
const WORDS = WORDS_PER_SECOND * 120;

// A model is elsewhere: it takes only the time that the clients on its core leave.
setPriority(10);

new ModelServer((call) => {
  const wait = async (): Promise<void> => {
    await pause(1000 / WORDS_PER_SECOND);
    if (call.isAborted) throw new Error("nobody listens");
  };
  return { parts: Array.from({ length: WORDS }, (_, n) => [wait, `word${n} `]).flat() };
}, Number(Deno.env.get("PORT")));
