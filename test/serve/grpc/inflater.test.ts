import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Inflater } from "#serve/grpc/inflater.ts";
import { until } from "../../kit/port.ts";

test("few messages are inflated at once, each once, in order of coming", async () => {
  const inflater = new Inflater();
  const message = Buffer.alloc(100_000);
  const compressed = gzipSync(message);
  const begun: number[] = [];
  const done: number[] = [];
  let most = 0;
  for (let at = 0; at < 20; at++) {
    const owner = {
      // Looked at when it is its turn.
      get ended() {
        begun.push(at);
        most = Math.max(most, begun.length - done.length);
        return at % 5 === 4;
      },
    };
    inflater.inflate("gzip", compressed, owner, (result) => {
      done.push(at);
      if (at % 5 === 4) assert.ok(!(result instanceof Uint8Array));
      else assert.deepEqual(result, message);
    });
  }
  assert.deepEqual(begun, [0, 1, 2, 3]);
  await until("all", () => done.length === 20);
  const all = Array.from({ length: 20 }, (_, at) => at);
  assert.deepEqual(begun, all);
  assert.deepEqual(
    done.toSorted((a, b) => a - b),
    all,
  );
  assert.ok(most <= 5, String(most));
});
