// Reports of replicas reach the circuit of the policy version that they name, whichever comes first.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Replicas } from "#circuit/component.ts";
import type { PolicyLoop } from "#controller/loop/policy-loop.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { GRACE_MS, ReplicaReports } from "../../../src/controller/loop/replica-reports.ts";
import { fakeClock } from "../../kit/clock.ts";
import { batchOf } from "../../kit/sluice/stored.ts";

const KEY = "/status/pod_scaler/agent_group-default-policy-p-component_id-root.1";

function report(policyHash: string, actual: number) {
  return encode("aperture.policy.sync.v1.ScaleStatusWrapper", {
    commonAttributes: { policyName: "p", policyHash, componentId: "root.1" },
    scaleStatus: { configuredReplicas: 5, actualReplicas: actual },
  });
}

/** Reports, with the loops of the given policies in force as `name hash`. */
function reportsFor(...running: readonly string[]) {
  const seen: (readonly [policy: string, componentId: string, actual: number | undefined])[] = [];
  const failures: string[] = [];
  const loopOf = (text: string) => {
    const [name = "", hash = ""] = text.split(" ");
    const loop = {
      version: { policy: { name, hash } },
      report: (id: string, replicas?: Replicas) => seen.push([text, id, replicas?.actual]),
    };
    return [name, loop as unknown as PolicyLoop] as const;
  };
  const loops = new Map(running.map(loopOf));
  const clock = fakeClock();
  const reports = new ReplicaReports({
    clock,
    loops: () => loops,
    failed: (key) => failures.push(key),
  });
  const start = (text: string) => {
    const [name, loop] = loopOf(text);
    loops.set(name, loop);
    reports.deliverTo(loop);
  };
  return { reports, seen, failures, start, clock };
}

test("a report reaches the version that it names, until it has been gone for a minute", () => {
  const { reports, seen, clock } = reportsFor("p h1", "q h1");
  reports.apply(batchOf([[KEY, report("h1", 3)]]));
  reports.apply(batchOf([], [KEY]));
  clock.advance(GRACE_MS - 1);
  assert.deepEqual(seen, [["p h1", "root.1", 3]]);
  clock.advance(1);
  const withdrawn = [
    ["p h1", "root.1", 3],
    ["p h1", "root.1", undefined],
  ];
  assert.deepEqual(seen, withdrawn);
  reports.apply(batchOf([], [KEY]));
  clock.advance(GRACE_MS);
  assert.deepEqual(seen, withdrawn);
  assert.equal(clock.alarms, 0);
});

test("a report that comes back in time was never gone", () => {
  const { reports, seen, clock } = reportsFor("p h1");
  reports.apply(batchOf([[KEY, report("h1", 3)]]));
  reports.apply(batchOf([], [KEY]));
  clock.advance(GRACE_MS / 2);
  reports.apply(batchOf([[KEY, report("h1", 4)]]));
  assert.equal(clock.alarms, 0);
  clock.advance(GRACE_MS);
  assert.deepEqual(
    seen.map(([, , actual]) => actual),
    [3, 4],
  );
});

test("after a close no report is withdrawn", () => {
  const { reports, seen, clock } = reportsFor("p h1");
  reports.apply(batchOf([[KEY, report("h1", 3)]]));
  reports.apply(batchOf([], [KEY]));
  reports.close();
  assert.equal(clock.alarms, 0);
  assert.equal(seen.length, 1);
});

test("a report about a version that does not run yet waits for that version", () => {
  const { reports, seen, start } = reportsFor("p h1");
  reports.apply(batchOf([[KEY, report("h2", 4)]]));
  start("q h2");
  assert.deepEqual(seen, []);
  start("p h2");
  assert.deepEqual(seen, [["p h2", "root.1", 4]]);
});

test("other keys are skipped; a report that cannot be read is reported and leaves the one before", () => {
  const { reports, seen, failures, start } = reportsFor();
  reports.apply(batchOf([[KEY, report("h1", 3)]]));
  reports.apply(
    batchOf([
      [KEY, Buffer.from([0xff])],
      ["/config/api/policies/p", Buffer.from("{}")],
    ]),
  );
  assert.deepEqual(failures, [KEY]);
  start("p h1");
  assert.deepEqual(seen, [["p h1", "root.1", 3]]);
});
