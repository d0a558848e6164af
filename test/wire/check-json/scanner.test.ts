// The fast scanner looks at four bytes of a string at a time: wherever the end of a string, an escape or a control
// character stands, it is found.

import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonScanner } from "#wire/json/scanner.ts";

/** A scanner over text that does not begin at the start of its memory and does not end at its end. */
function scanner(text: Buffer): JsonScanner {
  const memory = Buffer.concat([Buffer.from('"\\'), text, Buffer.from('"\\')]);
  return new JsonScanner(memory.subarray(2, 2 + text.length));
}

const LONGEST = 13;

test("finds the end of strings of every length", () => {
  for (let length = 0; length <= LONGEST; length++) {
    for (const after of ["", ",", ',"next"']) {
      const json = scanner(Buffer.from(`"${"x".repeat(length)}"${after}`));
      assert.ok(json.text(), `${length} bytes, then ${after}`);
      assert.deepEqual([json.start, json.end], [1, 1 + length]);
    }
  }
});

test("leaves escapes, control characters and missing ends to the general parser, wherever they are", () => {
  for (let length = 1; length <= LONGEST; length++) {
    for (let at = 0; at < length; at++) {
      for (const odd of [0x00, 0x09, 0x1f, 0x5c]) {
        const text = Buffer.from(`"${"x".repeat(length)}"`);
        text[1 + at] = odd;
        assert.equal(scanner(text).text(), false, `byte ${odd} at ${at} of ${length}`);
      }
    }
    assert.equal(scanner(Buffer.from(`"${"x".repeat(length)}`)).text(), false);
  }
});

test("reports bytes beyond ASCII, wherever they are", () => {
  for (let at = 0; at < LONGEST; at++) {
    const text = Buffer.from(`"${"x".repeat(LONGEST)}"`);
    for (const byte of [0x20, 0x21, 0x23, 0x7f, 0x80, 0xa2, 0xdc, 0xff]) {
      text[1 + at] = byte;
      const json = scanner(text);
      assert.ok(json.text(), `byte ${byte} at ${at}`);
      assert.equal(json.combinedBytes > 0x7f, byte > 0x7f, `byte ${byte} at ${at}`);
    }
  }
});
