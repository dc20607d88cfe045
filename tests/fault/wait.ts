// Waiting for what becomes true.

/** Asks again until `check` throws no more; throws what it threw last after `timeoutMs`. */
export async function eventually<Result>(check: () => Result | Promise<Result>, timeoutMs = 10_000): Promise<Result> {
  const end = performance.now() + timeoutMs;
  while (true) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await pause(25);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
