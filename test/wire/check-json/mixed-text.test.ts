// Text of bytes that are only partly UTF-8.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { mixedText } from "#wire/json/mixed-text.ts";

test("keeps what is valid, and reads every other byte as ISO 8859-1", () => {
  // No sequence begins with one of these bytes or contains it.
  const stray = fc.integer({ min: 0xf8, max: 0xff });
  const piece = fc.oneof(fc.string({ unit: "grapheme" }), stray);
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const parts = pieces.map((each) =>
        typeof each === "string" ? Buffer.from(each) : Buffer.of(each),
      );
      const wanted = pieces.map((each) =>
        typeof each === "string" ? each : String.fromCharCode(each),
      );
      assert.equal(mixedText(Buffer.concat(parts)), wanted.join(""));
    }),
  );
});

test("has no replacement character, whatever the bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 8 }), (bytes) => {
      const given = Buffer.from(bytes);
      assert.equal(mixedText(given).includes("\ufffd"), given.includes("\ufffd"));
    }),
  );
});
