// 64-bit integers read as text, on both sides of the range in which doubles are exact.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ProtoReader } from "#wire/protobuf/reader.ts";

/** The varint encoding of an int64: ten bytes where it is negative. */
function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Uint8Array.from([...bytes, Number(rest)]);
}

function read(value: bigint) {
  const bytes = varint(value);
  return [new ProtoReader(bytes).int64Text(bytes.length), new ProtoReader(bytes).int64(10)];
}

const EDGE = 2n ** 53n;

test("int64 is read exactly around 2^53, 2^54 and their negatives, and at its limits", () => {
  for (const edge of [0n, 2n ** 32n, EDGE, 2n * EDGE]) {
    for (const sign of [1n, -1n]) {
      for (let off = -3n; off <= 3n; off++) {
        const value = sign * edge + off;
        assert.deepEqual(read(value), [String(value), value]);
      }
    }
  }
  for (const value of [2n ** 63n - 1n, -(2n ** 63n)]) {
    assert.deepEqual(read(value), [String(value), value]);
  }
});

test("any int64 is read exactly", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      assert.deepEqual(read(value), [String(value), value]);
    }),
  );
});
