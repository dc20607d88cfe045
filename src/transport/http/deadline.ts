// The time a request may take. Work that runs on past it is told to stop, and nobody waits for it.
import { Fault } from "@/core/fault.ts";
import type { Exchange } from "./exchange.ts";

/** The answer of `work`, or `unavailable` after `limitMs`. */
export function withDeadline(exchange: Exchange, limitMs: number, work: Promise<Response>): Promise<Response> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const fault = new Fault("unavailable", `The request took longer than ${Math.round(limitMs / 1000)} s`);
      reject(fault);
      exchange.abort(fault);
    }, limitMs);
    work.then((response) => {
      clearTimeout(timer);
      resolve(response);
    }, (error) => {
      clearTimeout(timer);
      reject(error);
    });
  });
}
