// The status of a policy resource: Ready is True only while all of the policy is in force.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsBetween, type ResourceState, statusOf } from "#kube/policies/resource-status.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";

const RUNNING: ResourceState = {
  resource: {
    namespace: "shop",
    name: "p",
    policy: "p",
    uid: "1",
    generation: 3,
    created: "",
    text: "{}",
    status: undefined,
  },
  hash: "h",
  findings: [],
  warnings: [],
  dynamicConfig: undefined,
  scales: false,
  targets: [],
  running: "h",
  leftOut: undefined,
  quota: undefined,
  rollout: { agents: 2, applied: 2 },
};

const NOT_SCALED: PolicyWarning = {
  code: "not_scaled",
  path: "circuit.components[0]",
  text: "the controller cannot scale Deployment shop/api",
  why: "status 403: deployments.apps is forbidden",
};

const conditionsOf = (known: Partial<ResourceState>) =>
  Object.fromEntries(
    statusOf({ ...RUNNING, ...known }, 0).conditions.map(({ type, status, reason }) => [
      type,
      `${status} ${reason}`,
    ]),
  );

test("a policy of which all is in force is ready", () => {
  assert.deepEqual(conditionsOf({}), { Valid: "True Compiled", Ready: "True Running" });
  assert.equal(conditionsOf({ scales: true })["Scaling"], "True Followed");
});

test("a policy of which agents refuse a rule is not ready, and says why", () => {
  const rollout = { agents: 2, applied: 1, behind: ["a"], unknown: 0, refused: ["a: no regex"] };
  assert.equal(conditionsOf({ rollout })["Ready"], "False RefusedByAgents");
  const [, ready] = statusOf({ ...RUNNING, rollout }, 0).conditions;
  assert.equal(ready?.message, "a: no regex");
});

test("a policy beyond the quota of its namespace is neither judged nor ready, and one event says so", () => {
  const over = { quota: 20, hash: undefined, running: undefined };
  const status = statusOf({ ...RUNNING, ...over }, 0);
  assert.deepEqual(conditionsOf(over), { Valid: "Unknown OverQuota", Ready: "False OverQuota" });
  assert.equal(status.status, "rejected");
  const events = eventsBetween(undefined, status);
  assert.deepEqual(
    events.map(({ type, reason }) => `${type} ${reason}`),
    ["Warning OverQuota"],
  );
  assert.match(
    events[0]?.note ?? "",
    /shop may have 20 policies in force \(policies\.namespace_quota\)/,
  );
});

test("an object that is not scaled counts where the policy scales, and not in a dry run", () => {
  const warnings = [NOT_SCALED];
  assert.deepEqual(conditionsOf({ warnings, scales: true }), {
    Valid: "True Compiled",
    Ready: "False NotScaled",
    Scaling: "False NotScaled",
  });
  assert.equal(conditionsOf({ warnings })["Ready"], "True Running");
  const [, ready] = statusOf({ ...RUNNING, warnings, scales: true }, 0).conditions;
  assert.match(ready?.message ?? "", /deployments\.apps is forbidden$/);
});

test("a target whose requests are not asked about keeps the policy from being ready", () => {
  const targets = [
    { controlPoint: "gateway/shop/edge", fault: undefined },
    { controlPoint: "httproute/shop/checkout", fault: "there is no HTTPRoute shop/checkout" },
  ];
  assert.deepEqual(conditionsOf({ targets }), {
    Valid: "True Compiled",
    Ready: "False NotAttached",
    Attached: "False NotAttached",
  });
  const [, ready] = statusOf({ ...RUNNING, targets }, 0).conditions;
  assert.equal(ready?.message, "httproute/shop/checkout: there is no HTTPRoute shop/checkout");
  assert.deepEqual(conditionsOf({ targets: targets.slice(0, 1) }), {
    Valid: "True Compiled",
    Ready: "True Running",
    Attached: "True Attached",
  });
});

test("all warnings are counted, and the first twenty listed", () => {
  const warnings = Array.from({ length: 25 }, (_, at) => ({ ...NOT_SCALED, path: `p${at}` }));
  const status = statusOf({ ...RUNNING, warnings }, 0);
  assert.deepEqual([status.warningCount, status.warnings.length], [25, 20]);
});

test("what does not change is no event, and one reason is one event", () => {
  const good = statusOf({ ...RUNNING, scales: true }, 0);
  const bad = statusOf({ ...RUNNING, scales: true, warnings: [NOT_SCALED] }, 0);
  assert.deepEqual(eventsBetween(good, good), []);
  assert.deepEqual(
    eventsBetween(good, bad).map(({ type, reason }) => [type, reason]),
    [["Warning", "NotScaled"]],
  );
  assert.deepEqual(
    eventsBetween(bad, good).map(({ type, reason }) => [type, reason]),
    [
      ["Normal", "Running"],
      ["Normal", "Followed"],
    ],
  );
});
