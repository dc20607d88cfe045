// What the wire format itself refuses, without a connection.
import assert from "node:assert/strict";
import { parseLine } from "@/transport/ws/frame.ts";

Deno.test("unsafe text in the input of an rpc is named by its place in that input, as over HTTP", () => {
  const refused = (data: string): unknown => {
    const line = parseLine(`{"id":1,"rpc":{"method":"message.send","data":${data}}}`);
    return typeof line === "object" && line.method === "invalid" ? line.body : line;
  };
  const message = (place: string): unknown => ({
    code: 422,
    message: `validation_failed: ${place}: Text may not contain NUL or a lone surrogate`,
  });
  assert.deepEqual(refused('{"roomId":"r","text":"a\\u0000"}'), message("/text"));
  assert.deepEqual(refused('{"metadata":{"a/b":["\\ud800"]}}'), message("/metadata/a~1b/0"));
  assert.deepEqual(refused('"\\u0000"'), message("input"));
});
