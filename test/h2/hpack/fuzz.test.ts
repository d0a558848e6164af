// Field blocks with damage are decoded as a second decoder does, which shares no code with ours.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CompressionError, Decoder } from "#h2/hpack/decoder.ts";
import {
  type Field,
  HpackDecoder,
  indexed,
  tableSize,
  UnknownCharacter,
} from "../../kit/clients/hpack.ts";
import { fuzzRuns } from "../../kit/properties/fuzz.ts";
import { HeaderBlockWriter } from "../../lab/fuzz/engine/hpack-variants.ts";
import { Random } from "../../lab/fuzz/engine/random.ts";
import { decode } from "./setup.ts";

const TABLE = 4_096;
const NAMES = [":path", "x-user", "x-text", "cookie", "content-type"];

type Outcome = "decoded" | "refused" | "unknown";

/** What became of all blocks. */
const seen: Record<Outcome, number> = { decoded: 0, refused: 0, unknown: 0 };

/** One connection: its blocks share a dynamic table, and the first one that is refused ends it. */
function connection(random: Random): void {
  const ours = new Decoder(TABLE);
  const theirs = new HpackDecoder(TABLE);
  const writer = new HeaderBlockWriter(random);
  for (let block = random.between(1, 12); block > 0; block--) {
    const bytes = random.chance(0.05) ? random.bytes(random.size(64)) : writer.block(some(random));
    const sent = random.chance(0.25) ? damaged(random, bytes) : bytes;
    const outcome = compare(ours, theirs, sent);
    seen[outcome]++;
    if (outcome !== "decoded") return;
  }
}

function compare(ours: Decoder, theirs: HpackDecoder, bytes: Buffer): Outcome {
  const { generation } = ours;
  const fields = attempt(() => decode(ours, bytes), CompressionError);
  const hex = bytes.toString("hex");
  let wanted: readonly Field[] | undefined;
  try {
    wanted = theirs.decode(bytes);
  } catch (thrown) {
    if (thrown instanceof UnknownCharacter) return "unknown";
    assert.equal(fields, undefined, `${hex} was decoded, and the other decoder says: ${thrown}`);
    return "refused";
  }
  assert.deepEqual(fields, wanted.flat(), hex);
  if (ours.generation === generation)
    assert.deepEqual(decode(ours, bytes), fields, `${hex} means something else the second time`);
  return "decoded";
}

/** The result; undefined where this error is thrown. */
function attempt<Result>(act: () => Result, error: typeof CompressionError): Result | undefined {
  try {
    return act();
  } catch (thrown) {
    if (thrown instanceof error) return undefined;
    throw thrown;
  }
}

function some(random: Random): readonly Field[] {
  return Array.from({ length: random.between(0, 6) }, () => [
    random.pick(NAMES),
    random.text(random.chance(0.05) ? 5_000 : 40),
  ]);
}

function damaged(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length + 1);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  const change = random.below(6);
  if (change === 0) return Buffer.from(before);
  if (change === 1) return Buffer.concat([before, random.bytes(random.between(1, 6)), after]);
  if (change === 2) return Buffer.concat([before, after.subarray(1)]);
  if (change === 3) return Buffer.concat([...sizeUpdates(random), bytes]);
  // Far beyond every table, in as many bytes as it takes.
  if (change === 4) return Buffer.concat([indexed(2 ** random.between(7, 40)), bytes]);
  const changed = Buffer.from(bytes);
  if (at < changed.length) changed[at] = (changed[at] ?? 0) ^ (1 << random.below(8));
  return changed;
}

function sizeUpdates(random: Random): readonly Buffer[] {
  const size = () =>
    random.pick([0, random.below(TABLE), TABLE, TABLE + 1, 2 ** random.between(5, 40)]);
  return Array.from({ length: random.between(1, 4) }, () => tableSize(size()));
}

test("damaged field blocks are refused, or decoded, as another decoder does", (t) => {
  const property = fc.property(fc.integer(), (seed) => connection(new Random(seed)));
  fc.assert(property, { ...fuzzRuns(3_000), endOnFailure: true });
  for (const outcome of ["decoded", "refused"] as const) assert.ok(seen[outcome] > 500, outcome);
  t.diagnostic(JSON.stringify(seen));
});
