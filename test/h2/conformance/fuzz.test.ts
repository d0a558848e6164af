// A short fuzz of Sluice's HTTP/2 in every test run; `test/lab/fuzz/h2.ts` is the long one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fuzzer } from "../../lab/fuzz/engine/fuzzer.ts";
import { loadRecordings } from "../../lab/fuzz/load-recordings.ts";

const FRAMES = 100_000;
const SEED = 1;
/** Allowed growth of the heap, more than the fuzzer itself remembers, bytes. */
const GROWTH = 6 * 2 ** 20;

test("survives 100 000 fuzzed frames: every connection answers or ends with GOAWAY, and nothing leaks", async () => {
  const fuzzer = new Fuzzer({ seed: SEED, frames: FRAMES, recordings: loadRecordings() });
  const failure = await fuzzer.run();
  const again = `node test/lab/fuzz/h2.ts --seed ${SEED} --only ${failure?.index}`;
  assert.equal(failure, undefined, `${again}\n${failure?.violations.join("\n")}`);
  const { frames, behaviours, goaways, resets, warm, held } = fuzzer.summary;
  assert.ok(frames >= FRAMES);
  assert.equal(Object.keys(behaviours).length, 4, "every behaviour of client");
  assert.ok(Object.keys(goaways).length >= 6, `GOAWAY codes seen: ${Object.keys(goaways)}`);
  assert.ok(Object.keys(resets).length >= 5, `RST_STREAM codes seen: ${Object.keys(resets)}`);
  assert.ok(held - warm < GROWTH, `heap grew from ${warm} to ${held} bytes`);
});
