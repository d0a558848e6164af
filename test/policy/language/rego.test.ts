// Rego modules are checked without being run: what cannot be a module is refused, everything else passes.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkRego } from "#policy/language/rego.ts";

const GOOD: readonly (readonly [module: string, names: readonly string[]])[] = [
  [
    'package my.rules\n\ntier = input.attributes.request.http.headers.tier\n\nhidden = "x"\n',
    ["tier", "hidden"],
  ],
  [
    "# about\npackage x\nimport future.keywords\ndefault allow := false\nallow { input.a == 1 }\n",
    ["allow"],
  ],
  [
    'package x["y-z"]\nimport data.lib as l\nuser := u {\n  [_, token] := split(input.token, " ")\n  u := io.jwt.decode(token)[1].sub\n} else = "none" {\n  not input.token\n}\n',
    ["user"],
  ],
  [
    "package x\nimport rego.v1\nadmins contains name if {\n  some name in input.names\n  every g in input.groups { g != `raw \\ text` }\n}\nf(a, b) := c if c := a * b + -1\n",
    ["admins", "f"],
  ],
  [
    'package x\nnames := {n | n := input.list[_]; n != null}\nobj := {\n  "a": 1,\n  "b": [x | x := 1.5e-3],\n}\ndeep.path[x] := 1 if x := 2\n',
    ["names", "obj", "deep"],
  ],
  ["package x\nlong =\n  1 +\n  2\nf(x) { x > 1 } { x < -1 }\n", ["long", "f"]],
  ["package x", []],
];

const BAD: readonly (readonly [module: string, wanted: RegExp])[] = [
  ["", /package line/],
  ["a = 1\n", /package line/],
  ["package\nx = 1", /package line/],
  ["package x\na = = 1\n", /an operand after the operator/],
  ["package x\na = 1 +\n", /an operand after the operator/],
  ["package x\na { == 1 }\n", /an operand before the operator/],
  ["package x\na = [1, 2\n", /matching brackets/],
  ["package x\na = (1]\n", /matching brackets/],
  ["package x\na = }\n", /something after|matching brackets/],
  ['package x\na = "open\n', /a Rego module/],
  ["package x\na = `open\n", /a Rego module/],
  ["package x\na = 'x'\n", /a Rego module/],
  ["package x\na = 1 2\n", /an operator after 1/],
  ['package x\na = b "c"\n', /an operator after b/],
  ["package x\na\n", /a value or a body for a/],
  ["package x\na {}\n", /a body for a that is not empty/],
  ["package x\n1 = a\n", /a rule/],
  ["package x\ntrue = 1\n", /a rule/],
];

describe("passes", () => {
  for (const [module, names] of GOOD) {
    test(JSON.stringify(module), () => {
      const judged = checkRego(module);
      assert.equal(judged.fault, undefined);
      assert.deepEqual([...judged.names].sort(), [...names].sort());
    });
  }
});

describe("is refused", () => {
  for (const [module, wanted] of BAD) {
    test(JSON.stringify(module), () => {
      const { fault } = checkRego(module);
      assert.match(fault?.wanted ?? "nothing", wanted);
    });
  }
});
