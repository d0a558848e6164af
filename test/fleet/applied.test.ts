// To which policy an agent counts a rule that it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AppliedPolicies, versionNumber } from "#fleet/applied.ts";
import { classifierName, componentName, fluxMeterName } from "#sync/keys.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { fakeClock } from "../kit/clock.ts";

/** The report of an agent of the group that has rules of policy `p`, of which it refuses these keys. */
function saidOf(group: string, refused: readonly string[]) {
  const clock = fakeClock();
  const said: Uint8Array[] = [];
  const applied = new AppliedPolicies(group, clock, (value) => void said.push(value));
  const rules = new Map([["sampler/other", { policyName: "p", policyHash: "h" }]]);
  applied.changed(rules, new Map(refused.map((key) => [key, { message: "bad" }])));
  clock.advance(1_000);
  const [bytes = assert.fail()] = said;
  const { policies, refused: told } = decode("sluice.fleet.v1.Applied", bytes);
  return { policies, refused: told.map(({ policy, reason }) => [policy, reason]) };
}

test("a refused rule is counted to its policy, whatever the group and the policy are called", () => {
  for (const group of ["default", "eu-policy-team", "a-policy-b-component_id-c"]) {
    for (const policy of ["p", "p-policy-q", "p-component_id-root"]) {
      const names = [componentName(group, policy, "root.0"), classifierName(group, policy, 0)];
      for (const name of names)
        assert.deepEqual(saidOf(group, [`kind/${name}`]).refused, [[policy, "bad"]], name);
    }
  }
  const { policies } = saidOf("eu-policy-team", [
    `sampler/${componentName("eu-policy-team", "p", "root.0")}`,
  ]);
  assert.deepEqual(policies, [], "the policy is not applied");
});

test("a refused rule whose key names no policy is counted to none", () => {
  const { policies, refused } = saidOf("default", [
    `flux_meter/${fluxMeterName("default", "m")}`,
    `sampler/${componentName("other", "p", "root.0")}`,
  ]);
  assert.deepEqual(refused, []);
  assert.deepEqual(policies, [versionNumber({ policyName: "p", policyHash: "h" })]);
});
