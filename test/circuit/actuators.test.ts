// The decisions that stay in force when a plan is replaced, and those that stand in for an actuator.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Actuator, carryOver, decisionId, standInNow } from "#circuit/actuators.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { Leaf } from "#circuit/plan.ts";

/** A sampler of this identity whose accept percentage is signal 0. */
function sampler(identity: string, componentId: string, group = "a"): Actuator {
  const kind = "sampler";
  const leaf = {
    kind,
    id: componentId,
    identity,
    config: {},
    inputs: { accept_percentage: [{ kind: "signal", signal: 0 }] },
  } as unknown as Leaf;
  const key = decisionId({ kind, componentId });
  return { kind, componentId, agentGroups: [group], key, leaf };
}

function decision(componentId: string, acceptPercentage: number): CircuitDecision {
  const common = { kind: "sampler", componentId, agentGroups: ["a"] } as const;
  return { ...common, acceptPercentage, passThroughLabelValues: [] };
}

test("decisions follow the identity of their component, else its kind and id, under the new id and groups", () => {
  const from = [sampler("one", "root.0"), sampler("two", "root.1"), sampler("three", "root.2")];
  const decisions = new Map(
    from.map(({ key, componentId }, at) => [key, decision(componentId, at)] as const),
  );
  const to = [sampler("new", "root.0"), sampler("one", "root.1"), sampler("two", "root.5", "b")];
  const carried = carryOver(decisions, from, to);
  assert.deepEqual(
    [...carried],
    [
      ["sampler/root.0", decision("root.0", 0)],
      ["sampler/root.1", decision("root.1", 0)],
      ["sampler/root.5", { ...decision("root.5", 1), agentGroups: ["b"] }],
    ],
  );
});

test("what stands in for a component is the failure mode that made its last decision", () => {
  const actuator = sampler("one", "root.0");
  const after = (last: CircuitDecision | undefined) =>
    standInNow(actuator, new Map(last === undefined ? [] : [[actuator.key, last]]));
  const made = decision("root.0", 100);
  assert.equal(after(undefined), undefined);
  assert.equal(after(made), undefined);
  for (const failure of ["open", "closed", "last_known"] as const) {
    assert.equal(after({ ...made, failure } as CircuitDecision), failure);
  }
});

test("a load scheduler fails open while its decision lets everything pass", () => {
  const kind = "load_scheduler";
  const key = decisionId({ kind, componentId: "root.0" });
  const leaf = { kind: "load_actuator", config: {} } as unknown as Leaf;
  const actuator = { kind, componentId: "root.0", agentGroups: ["a"], key, leaf } as const;
  const after = (passThrough: boolean) =>
    standInNow(actuator, new Map([[key, { kind, passThrough } as CircuitDecision]]));
  assert.deepEqual([after(true), after(false)], ["open", undefined]);
});
