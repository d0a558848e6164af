import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CUT_MARK, cutText, MAX_SHOWN_BYTES } from "#base/text/cut.ts";

test("a text of the largest size stays as it is, one byte more is cut with a mark", () => {
  assert.equal(MAX_SHOWN_BYTES, 1_024);
  assert.equal(cutText("x".repeat(1_024)), "x".repeat(1_024));
  assert.equal(cutText("x".repeat(1_025)), `${"x".repeat(1_021)}${CUT_MARK}`);
  assert.equal(cutText("ü".repeat(512)), "ü".repeat(512));
  assert.equal(cutText("ü".repeat(513)), `${"ü".repeat(510)}${CUT_MARK}`);
});

test("a cut text is a beginning of the text, within the bound, and no character is cut", () => {
  const part = fc.constantFrom("a", "ü", "€", "😀");
  fc.assert(
    fc.property(
      fc.array(part, { maxLength: 60 }),
      fc.integer({ min: 8, max: 80 }),
      (parts, max) => {
        const text = parts.join("");
        const cut = cutText(text, max);
        if (Buffer.byteLength(text) <= max) assert.equal(cut, text);
        else {
          assert.ok(Buffer.byteLength(cut) <= max && Buffer.byteLength(cut) > max - 7);
          assert.ok(cut.endsWith(CUT_MARK) && text.startsWith(cut.slice(0, -1)));
          assert.ok(cut.isWellFormed());
        }
      },
    ),
    { numRuns: 2000 },
  );
});
