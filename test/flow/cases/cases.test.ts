// Golden cases of the data plane: every component that agents carry out, with every one of its parameters, in virtual time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parametersOf, parametersOfLanguage } from "./parameters.ts";
import { readCases } from "./read.ts";
import { runCase } from "./run.ts";

const cases = readCases();

for (const one of cases) test(one.name, () => runCase(one));

test("every parameter of these components occurs in a case, and every word that a parameter may be", () => {
  const occurring = new Set(cases.flatMap(({ policy }) => [...parametersOf(policy)]));
  const parameters = [...parametersOfLanguage()];
  assert.ok(parameters.length > 200, "the language has parameters");
  assert.deepEqual(
    parameters.filter((path) => !occurring.has(path)),
    [],
    "write a case for these in test/cases/flow",
  );
});
