// Writing the statuses of policy resources: which failures are logged, and in which order statuses are written.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { policyResource } from "#kube/policies/resource.ts";
import type { ResourceState } from "#kube/policies/resource-status.ts";
import { StatusWriter } from "#kube/policies/status-writer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { clientOf, fakeApi } from "../../kit/kube/fake-api.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

const RETRY_MS = 5_000;

function stateOf(name: string): ResourceState {
  const metadata = { name, namespace: "a", uid: name, generation: 1 };
  return {
    resource: policyResource({ metadata }, "a"),
    hash: "h",
    findings: [],
    warnings: [],
    dynamicConfig: undefined,
    scales: false,
    targets: [],
    running: "h",
    leftOut: undefined,
    quota: undefined,
    rollout: undefined,
  };
}

/** A writer beside a server that fails for the names in `failing`. */
async function setting(t: TestContext, ...names: readonly string[]) {
  const api = await fakeApi(t);
  const failing = new Map<string, number>();
  const asked: string[] = [];
  const states = new Map(names.map((name) => [name, stateOf(name)]));
  api.before = ({ path, body, reply }) => {
    const [name = ""] = path.split("/").slice(-2);
    asked.push(name);
    const status = failing.get(name);
    if (status === undefined)
      reply(200, { ...JSON.parse(body), metadata: { name, namespace: "a", uid: name } });
    else reply(status, { message: "not now" });
    return true;
  };
  const clock = fakeClock();
  const log = memoryLog();
  const written: string[] = [];
  let rounds = 0;
  const writer = new StatusWriter({
    client: clientOf(t, api),
    states: () => {
      rounds += 1;
      return [...states.values()];
    },
    written: ({ policy }) => {
      states.delete(policy);
      written.push(policy);
    },
    record: () => undefined,
    clock,
    log,
  });
  t.after(() => writer.close());
  const logged = () =>
    log.lines.map(({ level, fields, message }) => `${level} ${fields["policy"]}: ${message}`);
  return { asked, clock, failing, logged, rounds: () => rounds, states, writer, written };
}

test("a failure is logged once, and again for a resource that was made anew", async (t) => {
  const { asked, clock, failing, logged, rounds, states, writer } = await setting(t, "p");
  failing.set("p", 422);
  const attempts = async (count: number) => {
    await until(`attempt ${count}`, () => {
      if (asked.length < count) clock.advance(RETRY_MS);
      return asked.length >= count;
    });
  };
  writer.write();
  await until("it is logged", () => logged().length === 1);
  await attempts(3);
  assert.equal(logged().length, 1);
  states.delete("p");
  const before = rounds();
  writer.write();
  await until("it is forgotten", () => rounds() > before);
  states.set("p", stateOf("p"));
  writer.write();
  await until("it is logged again", () => {
    clock.advance(RETRY_MS);
    return logged().length === 2;
  });
  assert.equal(logged()[0], logged()[1]);
});

test("a status for which the server takes too long does not keep the others waiting", async (t) => {
  const { asked, clock, failing, logged, writer, written } = await setting(t, "a", "b", "c");
  failing.set("a", 504);
  writer.write();
  await until("the others are written", () => {
    clock.advance(RETRY_MS);
    return written.length === 2;
  });
  assert.deepEqual(written, ["b", "c"]);
  assert.equal(asked[0], "a");
  failing.delete("a");
  await until("it is written", () => {
    clock.advance(RETRY_MS);
    return written.length === 3;
  });
  const [failed, again] = logged();
  assert.match(failed ?? "", /^warn a: its status was not written, will be retried: .* not now$/);
  assert.equal(again, "info a: its status is written again");
});
