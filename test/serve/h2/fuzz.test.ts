// A short fuzz of the own HTTP/2 with every run of the tests; `test/fuzz/h2.ts` is the long one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { recordings } from "../../fuzz/recordings.ts";
import { Fuzzer } from "../../kit/fuzz.ts";

const FRAMES = 100_000;
const SEED = 1;
/** Beyond what the fuzzer itself remembers. Bytes. */
const GROWTH = 6 * 2 ** 20;

test("whatever it is sent, the transport answers or says why not, and keeps nothing", async () => {
  const fuzzer = new Fuzzer({ seed: SEED, frames: FRAMES, recordings: recordings() });
  const failure = await fuzzer.run();
  const again = `node test/fuzz/h2.ts --seed ${SEED} --only ${failure?.index}`;
  assert.equal(failure, undefined, `${again}\n${failure?.wrong.join("\n")}`);
  const { frames, manners, goaways, resets, warm, held } = fuzzer.summary;
  assert.ok(frames >= FRAMES);
  assert.equal(Object.keys(manners).length, 4, "every manner of client");
  assert.ok(Object.keys(goaways).length >= 6, `reasons to end: ${Object.keys(goaways)}`);
  assert.ok(Object.keys(resets).length >= 5, `reasons to reset: ${Object.keys(resets)}`);
  assert.ok(held - warm < GROWTH, `${warm} bytes were held, then ${held}`);
});
