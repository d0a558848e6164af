import assert from "node:assert/strict";
import { test } from "node:test";
import { sanitise } from "#flow/classify/sanitise.ts";

test("white space and characters that would break a baggage member become dashes", () => {
  const cases: readonly [string, string][] = [
    ["plain", "plain"],
    ["a b", "a-b"],
    ['a/b\\c;d"e,f', "a-b-c-d-e-f"],
    ["tab\tnl\nx", "tab-nl-x"],
    ["  ", "--"],
    ["a=b:c", "a=b:c"],
    ["100%", "100%"],
    ["é", "é"],
    ["\u0001", "\u0001"],
    ["", ""],
    ["<&>'()", "<&>'()"],
  ];
  for (const [value, wanted] of cases) assert.equal(sanitise(value), wanted);
});

test("white space is exactly Unicode's", () => {
  const white = [
    9, 10, 11, 12, 13, 0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x2000,
    0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a,
  ];
  const found: number[] = [];
  for (let code = 0; code <= 0xffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    if (sanitise(String.fromCharCode(code)) === "-") found.push(code);
  }
  const marks = [...'-\\/;",'].map((mark) => mark.charCodeAt(0));
  assert.deepEqual(
    found,
    [...white, ...marks].sort((a, b) => a - b),
  );
});

test("a lone surrogate becomes the replacement character", () => {
  assert.equal(sanitise("a\ud83d b"), "a\ufffd-b");
  assert.equal(sanitise("😀"), "😀");
});
