// The rule for policy names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { nameFault } from "#policy/document/name.ts";
import { lines } from "../kit.ts";

test("valid names", () => {
  for (const name of ["a", "a.b", "...", "Mixed Case", "größe-😀", "__proto__", "x".repeat(253)]) {
    assert.equal(nameFault(name), undefined, name);
  }
});

test("invalid names, with what was wanted", () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["", /of 1 to 253 characters/],
    ["x".repeat(254), /of 1 to 253 characters/],
    ["a/b", /without `\/`/],
    [".", /other than/],
    ["..", /other than/],
    ["a\nb", /without control/],
    ["a\u0000", /without control/],
    ["\u007f", /without control/],
    ["a\u0085", /without control/],
    ["a\ud800", /well-formed Unicode/],
    ["\udc00", /well-formed Unicode/],
  ];
  for (const [name, wanted] of cases) assert.match(nameFault(name) ?? "", wanted);
});

test("the rule applies to names of documents and of files", () => {
  const wrapped = (name: string): string =>
    `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: ${name}}\nspec: {circuit: {}}`;
  for (const name of ['".."', '"a\\nb"', "x".repeat(254)]) {
    assert.match(
      lines(wrapped(name)).join("\n"),
      /^p\.yaml:3:18: metadata\.name: wanted a policy name/,
    );
  }
  assert.match(lines(wrapped('"\\ud800"')).join("\n"), /^p\.yaml:3:18: .* well-formed Unicode/);
  assert.match(lines("circuit: {}", "..").join("\n"), /wanted a policy name other than/);
});
