// Scaling by what the store says, and reporting there: pod scalers, decisions and reports in the form that agents of other
// implementations use as well.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Scaling } from "#kube/scale/scaling.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { readReplicas } from "#sync/follow/replicas.ts";
import type { MetricSink } from "#telemetry/metrics/table.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { fakeClock } from "../../kit/clock.ts";
import { clientOf } from "../../kit/kube/fake-api.ts";
import { type FakeScales, fakeScales } from "../../kit/kube/fake-scales.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

const OBJECT = { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "api" };
const NAME = "agent_group-default-policy-p-component_id-root.1";

const attributes = (policyHash: string, policyName = "p") => ({
  commonAttributes: { policyName, policyHash, componentId: "root.1" },
});

/** Writes pod scalers and decisions as a controller does; undefined deletes. */
function writer(store: Store) {
  const commit = (key: string, value: Uint8Array | undefined) =>
    store.commit([value === undefined ? { kind: "delete", key } : { kind: "put", key, value }]);
  return {
    scaler: (hash: string | undefined, name = NAME, object = OBJECT) =>
      commit(
        `/config/pod_scaler/${name}`,
        hash === undefined
          ? undefined
          : encode("aperture.policy.sync.v1.PodScalerWrapper", {
              ...attributes(hash),
              podScaler: { kubernetesObjectSelector: { agentGroup: "default", ...object } },
            }),
      ),
    decision: (hash: string, desiredReplicas: number | undefined, name = NAME) =>
      commit(
        `/decisions/pod_scaler/${name}`,
        desiredReplicas === undefined
          ? undefined
          : encode("aperture.policy.sync.v1.ScaleDecisionWrapper", {
              ...attributes(hash),
              scaleDecision: { desiredReplicas },
            }),
      ),
    report: (name = NAME) => commit(`/status/pod_scaler/${name}`, undefined),
  };
}

async function setting(t: TestContext, cluster?: FakeScales, store = memoryStore()) {
  const own = cluster ?? (await fakeScales(t));
  const clock = fakeClock();
  const log = memoryLog();
  const said = { warned: 0, faults: [] as string[], closed: 0 };
  const scaling = new Scaling({
    client: clientOf(t, own.api, { clock }),
    store,
    record: () => undefined,
    clock,
    chance: seededChance(1),
    log,
    followed: (fault) => {
      const text = fault?.message ?? "";
      if (said.faults.at(-1) !== text) said.faults.push(text);
    },
    closed: () => {
      said.closed += 1;
    },
    warned: () => {
      said.warned += 1;
    },
    failed: (message, cause) => assert.fail(`${message}: ${String(cause)}`),
  });
  t.after(() => scaling.close());
  const reports = async () => {
    const { entries } = await store.list("/status/pod_scaler/");
    return entries.map(({ key, value }) => {
      const { policyHash, configured, actual } = readReplicas(value);
      return `${key.slice(19)} ${policyHash} ${configured}/${actual}`;
    });
  };
  const reported = async (...wanted: readonly string[]) => {
    let last: readonly string[] = [];
    await until(`reports ${wanted}`, async () => {
      last = await reports();
      return `${last}` === `${wanted}`;
    }).catch((thrown: unknown) => assert.deepEqual(last, wanted, String(thrown)));
  };
  return { cluster: own, clock, log, said, scaling, store, write: writer(store), reported };
}

test("a decision is carried out, and the replicas are reported for the version that decided", async (t) => {
  const { cluster, scaling, write, reported } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  scaling.start();
  await write.scaler("h1");
  await reported(`${NAME} h1 1/1`);
  await write.decision("h1", 5);
  await reported(`${NAME} h1 5/1`);
  cluster.put("deployments", "api", { configured: 5, actual: 5 });
  await reported(`${NAME} h1 5/5`);
  // Another version of the policy has not decided yet.
  await write.scaler("h2");
  await reported(`${NAME} h2 5/5`);
  await write.decision("h1", 9);
  await write.decision("h2", 2);
  await reported(`${NAME} h2 2/5`);
  // A decision that is withdrawn changes nothing.
  await write.decision("h2", undefined);
  cluster.put("deployments", "api", { configured: 7, actual: 5 });
  await reported(`${NAME} h2 7/5`);
  assert.deepEqual(cluster.writes, ["api=5", "api=2"]);
  await write.scaler(undefined);
  await reported();
});

test("decisions that were made before are in force when another controller begins to lead", async (t) => {
  const first = await setting(t);
  first.cluster.put("deployments", "api", { configured: 1, actual: 1 });
  first.scaling.start();
  await first.write.scaler("h1");
  await first.write.decision("h1", 4);
  await first.reported(`${NAME} h1 4/1`);
  await first.scaling.close();
  assert.equal(first.said.closed, 1);
  // Its reports end with it.
  await first.reported();
  first.cluster.put("deployments", "api", { configured: 2, actual: 2 });
  await first.write.decision("h1", 6);
  const second = await setting(t, first.cluster, first.store);
  second.scaling.start();
  await second.reported(`${NAME} h1 6/2`);
  assert.deepEqual(first.cluster.writes, ["api=4", "api=6"]);
});

test("a report that an agent deletes is written again", async (t) => {
  const { cluster, scaling, write, reported } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  scaling.start();
  await write.scaler("h1");
  await reported(`${NAME} h1 1/1`);
  await write.report();
  await reported(`${NAME} h1 1/1`);
});

test("an invalid value scales nothing, and its key is logged", async (t) => {
  const { cluster, scaling, store, write, reported, log } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  scaling.start();
  await write.scaler("h1");
  await write.decision("h1", 2);
  await reported(`${NAME} h1 2/1`);
  const value = Buffer.from([0xff]);
  await store.commit([{ kind: "put", key: `/decisions/pod_scaler/${NAME}`, value }]);
  await store.commit([{ kind: "put", key: `/config/pod_scaler/${NAME}`, value }]);
  await reported();
  const lines = log.lines.filter(({ message }) =>
    message.startsWith("an invalid value scales nothing"),
  );
  assert.deepEqual(
    lines.map(({ fields }) => fields["key"]),
    [`/decisions/pod_scaler/${NAME}`, `/config/pod_scaler/${NAME}`],
  );
  assert.deepEqual(cluster.writes, ["api=2"]);
});

test("warnings say that an object is not there, and that an autoscaler scales it too", async (t) => {
  const { cluster, scaling, write, said } = await setting(t);
  scaling.start();
  await write.scaler("h1");
  await until("it is missed", () => scaling.warningsOf(OBJECT).length > 0);
  assert.deepEqual(scaling.warningsOf(OBJECT), [
    {
      code: "not_scaled",
      text: "the controller cannot scale apps/v1 Deployment shop/api",
      why: "there is no apps/v1 Deployment shop/api",
    },
  ]);
  await until("somebody was told", () => said.warned > 0);
  const told = said.warned;
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  cluster.autoscale("hpa", OBJECT);
  await until("both are noticed", () => {
    return (
      scaling
        .warningsOf(OBJECT)
        .map(({ code }) => code)
        .join() === "other_autoscaler"
    );
  });
  assert.match(
    scaling.warningsOf(OBJECT)[0]?.text ?? "",
    /HorizontalPodAutoscaler hpa also scales/,
  );
  await until("somebody was told again", () => said.warned > told);
  assert.deepEqual(said.faults, [""]);
});

test("an API server that is away is reported, with what it says about metrics", async (t) => {
  const { cluster, clock, scaling, write, said, reported } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  scaling.start();
  await write.scaler("h1");
  await reported(`${NAME} h1 1/1`);
  const numbers = () => {
    const found: Record<string, number> = {};
    const to = {
      number: (name: string, labels: unknown[], value: number) => {
        found[`${name} ${labels.join()}`] = value;
      },
    };
    scaling.collect(to as unknown as MetricSink);
    return found;
  };
  assert.equal(numbers()["sluice_scaled_objects followed"], 1);
  cluster.api.away = true;
  await until("it is away", () => said.faults.at(-1) !== "");
  // The replicas that are known stay.
  await reported(`${NAME} h1 1/1`);
  assert.deepEqual(
    [numbers()["sluice_scaled_objects followed"], numbers()["sluice_scaled_objects faulty"]],
    [0, 1],
  );
  cluster.api.away = false;
  await until("it is back", () => {
    clock.advance(250);
    return said.faults.at(-1) === "";
  });
});

test("of several pod scalers of one object the greatest decision counts, in whatever order they come", async (t) => {
  const names = ["a", "b", "c"].map((name) => `${NAME}-${name}`);
  const step = fc.record({
    name: fc.constantFrom(...names),
    /** A pod scaler of this version comes, or goes. */
    hash: fc.option(fc.constantFrom("h1", "h2"), { nil: undefined }),
    decided: fc.option(
      fc.record({ hash: fc.constantFrom("h1", "h2"), replicas: fc.integer({ min: 0, max: 9 }) }),
      {
        nil: undefined,
      },
    ),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const { cluster, scaling, write } = await setting(t);
      cluster.put("deployments", "api", { configured: 42, actual: 42 });
      scaling.start();
      const hashes = new Map<string, string>();
      const decisions = new Map<string, { hash: string; replicas: number }>();
      for (const { name, hash, decided } of steps) {
        await write.scaler(hash, name);
        await write.decision(decided?.hash ?? "", decided?.replicas, name);
        hash === undefined ? hashes.delete(name) : hashes.set(name, hash);
        decided === undefined ? decisions.delete(name) : decisions.set(name, decided);
      }
      const wanted = names.flatMap((name) => {
        const decision = decisions.get(name);
        return decision !== undefined && decision.hash === hashes.get(name)
          ? [decision.replicas]
          : [];
      });
      const last = wanted.length === 0 ? undefined : Math.max(...wanted);
      if (last !== undefined)
        await until(`${last} are wanted`, () => cluster.configured("deployments", "api") === last);
      const before = cluster.writes.length;
      await scaling.close();
      assert.equal(cluster.writes.length, before);
    }),
    // A failing run waits for long: it is not made smaller.
    { numRuns: 25, endOnFailure: true },
  );
});
