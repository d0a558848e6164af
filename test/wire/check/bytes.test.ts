// Words of four bytes find what a look at each byte finds, wherever it stands.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { equalBytes, hasEscapedNul, hasInvalidByte, memoryOf } from "#wire/check/bytes.ts";

/** Bytes with others before and after them, which must not matter. */
function placed(bytes: readonly number[], before: number, around: number) {
  const start = before;
  const others = new Array<number>(before).fill(around);
  const memory = Uint8Array.from([...others, ...bytes, around]);
  return { view: new DataView(memory.buffer), start, end: start + bytes.length };
}

test("an invalid byte is found wherever it stands", () => {
  const byte = fc.oneof(fc.constantFrom(0, 9, 10, 13, 31, 32, 128, 138, 255), fc.nat(255));
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 13 }), fc.nat(5), (bytes, before) => {
      const { view, start, end } = placed(bytes, before, 0);
      const expected = bytes.some((each) => each === 0 || each === 10 || each === 13);
      assert.equal(hasInvalidByte(view, start, end), expected);
    }),
    { numRuns: 5000 },
  );
});

test("an escaped NUL is found wherever it stands", () => {
  const byte = fc.oneof(fc.constantFrom(0x25, 0x30, 0x24, 0x26, 0xa5), fc.nat(255));
  const part = fc.oneof(fc.constant([0x25, 0x30, 0x30]), fc.array(byte, { maxLength: 5 }));
  fc.assert(
    fc.property(fc.array(part, { maxLength: 4 }), fc.nat(5), (parts, before) => {
      const bytes = parts.flat();
      const { view, start, end } = placed(bytes, before, 0x30);
      const expected = Buffer.from(bytes).toString("latin1").includes("%00");
      assert.equal(hasEscapedNul(view, start, end), expected);
    }),
    { numRuns: 5000 },
  );
});

test("a difference is found wherever it is", () => {
  const bytes = fc.array(fc.constantFrom(0, 1, 255), { maxLength: 13 });
  fc.assert(
    fc.property(bytes, fc.nat(5), fc.nat(5), fc.nat(12), (one, before, otherBefore, at) => {
      const first = placed(one, before, 7);
      const other = one.map((byte, index) => (index === at ? byte ^ 1 : byte));
      const second = placed(other, otherBefore, 8);
      const { length } = one;
      assert.equal(equalBytes(first.view, first.start, first.view, first.start, length), true);
      assert.equal(
        equalBytes(first.view, first.start, second.view, second.start, length),
        at >= length,
      );
    }),
    { numRuns: 5000 },
  );
});

test("the view of the same memory is kept", () => {
  const memory = new Uint8Array(64);
  const view = memoryOf(memory.subarray(3, 9), new DataView(new ArrayBuffer(0)));
  assert.equal(view.buffer, memory.buffer);
  assert.equal(view.byteLength, 64);
  assert.equal(memoryOf(memory.subarray(20), view), view);
  assert.notEqual(memoryOf(new Uint8Array(64), view), view);
});
