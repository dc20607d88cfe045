// What is written to the log while something runs.
import { configure, type LogRecord, reset } from "@logtape/logtape";

/** The records of a category, from `debug` on, that `work` leaves. */
export async function captureLog(category: string[], work: () => Promise<void>): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { memory: (record) => records.push(record) },
    loggers: [
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: [] },
      { category, lowestLevel: "debug", sinks: ["memory"] },
    ],
  });
  try {
    await work();
  } finally {
    await reset();
  }
  return records;
}
