// Every recorded circuit runs as recorded, tick by tick, with the faults of the recording corrected. Plans come from the
// recorded circuits instead of the compiler, so that only the components and the running of circuits are tested.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type JsonObject, type RecordedCase, readCase, type Ticks } from "./case.ts";
import { asRecorded, asRight } from "./expect.ts";
import { kindOf, planOf } from "./plan.ts";
import { decisionsOf, replay } from "./replay.ts";

const CASES = join(import.meta.dirname, "cases");

/** Cases whose recorded wiring is the fault: their corrected columns need another plan. */
const WIRED_WRONG: ReadonlySet<string> = new Set([
  // D-5: the confirmation is not connected to the throttling component.
  "range-driven-confirmation",
  // D-10: an empty element of a list was flattened to the constant 0.
  "unconnected-ports",
]);

const all = readdirSync(CASES).map((name) => readCase(join(CASES, name)));

for (const recorded of all) {
  const { name, ticks } = recorded;
  if (ticks === undefined) continue;
  test(name, () => {
    const expected = WIRED_WRONG.has(name) ? asRecorded(recorded) : asRight(recorded);
    assert.deepEqual(replay(recorded, planOf(recorded), expected), []);
  });
}

function caseOf(name: string): RecordedCase {
  return readCase(join(CASES, name));
}

test("every kind of component is in a recording", () => {
  const found = new Set(
    all.flatMap(({ leaves }) => leaves?.map((leaf) => kindOf(leaf.name)) ?? []),
  );
  assert.equal(found.size, 35);
  assert.ok(!found.has(undefined));
});

test("decisions contain the tokens of workloads", () => {
  const recorded = caseOf("load-scheduler-latency-tokens");
  const decided = decisionsOf(recorded).map(
    ({ value }) =>
      (value?.["load_decision"] as JsonObject | undefined)?.["tokens_by_workload_index"],
  );
  const tokens = { "0": 12.5, "1": 40 };
  assert.deepEqual(decided, [tokens, tokens, tokens]);
});

test("label values that pass come from the policy or from the dynamic configuration", () => {
  const decided = decisionsOf(caseOf("sampler-pass-through")).map(({ tick, value }) => [
    tick,
    (value?.["sampler_decision"] as JsonObject | undefined)?.["pass_through_label_values"],
  ]);
  assert.deepEqual(decided, [
    [1, ["a", "b"]],
    [5, ["x", "y"]],
    [7, []],
    [9, ["a", "b"]],
  ]);
});

test("a first decision of zeros is sent", () => {
  const decided = decisionsOf(caseOf("rate-limiter-zero-constant"));
  assert.deepEqual(
    decided.map(({ tick }) => tick),
    [1, 1, 1, 1],
  );
});

test("differences are reported", () => {
  const recorded = caseOf("rate-limiter");
  const { ticks } = recorded;
  assert.ok(ticks?.signals !== undefined && ticks.decisions !== undefined);
  const plan = planOf(recorded);
  const differences = (changed: Partial<Ticks>) =>
    replay({ ...recorded, ticks: { ...ticks, ...changed } }, plan);
  const [[name, column] = ["", []]] = Object.entries(ticks.signals);
  assert.equal(differences({ signals: { [name]: column.with(3, 77) } }).length, 1);
  assert.equal(differences({ signals: { "root/NONE": [1] } }).length, 1);
  assert.equal(differences({ decisions: ticks.decisions.slice(1) }).length, 1);
  assert.equal(differences({ queries: { none: { first: 1, every: 1, count: 3 } } }).length, 1);
  const alerter = caseOf("alerter");
  assert.ok(alerter.ticks !== undefined);
  const quiet = { ...alerter, ticks: { ...alerter.ticks, alerts: [] } };
  assert.equal(replay(quiet, planOf(alerter)).length, 1);
});
