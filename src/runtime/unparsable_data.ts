// For Deno 2.9.6. Prints a folder of an npm package that `deno compile` must leave out, for the task `compile`.
//
// Fault: it parses files without an extension in the packages that it embeds. `test/perf/100k` of bintrees, which prom-client
// needs, has 100,000 numbers, half of them negative: one expression, too deep for the stack of the parser.
//
//   echo 'import "npm:bintrees@1.0.2";' > main.ts && deno compile main.ts # Aborts with "has overflowed its stack".
//
// Delete it, with `--exclude` of the task, when deployment_test.ts passes without: then the parser refuses the file, or skips it.
import { createRequire } from "node:module";
import "prom-client";

const BINTREES = /^(.*[\\/]bintrees[\\/][^\\/]+[\\/])index\.js$/;
const [folder] = Object.keys(createRequire(import.meta.url).cache).flatMap((path) => BINTREES.exec(path)?.[1] ?? []);
if (folder === undefined) throw new Error("prom-client no longer loads bintrees: delete this file");
Deno.stdout.writeSync(new TextEncoder().encode(`${folder}test`));
