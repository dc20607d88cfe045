// A folder of one test.

/** A new folder, which is deleted with all that is in it when it is disposed of. */
export async function createTemporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir({ prefix: "gateway-test-" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}
