// Scaling the objects that policies name: what is read, what is set, and what is said when that cannot be done.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { EventSubject, EventText } from "#kube/api/events.ts";
import { type ObjectName, objectText } from "#kube/scale/object.ts";
import { MAX_OBJECTS, Scaler } from "#kube/scale/scaler.ts";
import { fakeClock } from "../../kit/clock.ts";
import { clientOf } from "../../kit/kube/fake-api.ts";
import { fakeScales } from "../../kit/kube/fake-scales.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

const API: ObjectName = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  namespace: "shop",
  name: "api",
};
const TEXT = objectText(API);

async function setting(t: TestContext) {
  const cluster = await fakeScales(t);
  const clock = fakeClock();
  const log = memoryLog();
  const recorded: { readonly subject: EventSubject; readonly event: EventText }[] = [];
  const scaler = new Scaler({
    client: clientOf(t, cluster.api, { clock }),
    changed: () => undefined,
    record: (subject, event) => recorded.push({ subject, event }),
    clock,
    chance: seededChance(1),
    log,
  });
  t.after(() => scaler.close());
  const want = (replicas: number | undefined, object = API) =>
    scaler.set(new Map([[objectText(object), { object, replicas }]]));
  /** Waits for a condition while time passes, so that whatever pauses goes on. */
  const later = (what: string, holds: () => boolean) =>
    until(what, () => {
      if (holds()) return true;
      clock.advance(250);
      return false;
    });
  const logged = (part: string) => log.lines.filter(({ message }) => message.includes(part)).length;
  return { cluster, clock, scaler, want, later, logged, recorded };
}

test("replicas are read, set when they differ, and read again when they change", async (t) => {
  const { cluster, scaler, want, recorded } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  want(undefined);
  await until("they are known", () => scaler.replicasOf(TEXT) !== undefined);
  assert.deepEqual(scaler.replicasOf(TEXT), { configured: 1, actual: 1 });
  want(5);
  await until("they are set", () => cluster.writes.length > 0);
  await until("it is noticed", () => scaler.replicasOf(TEXT)?.configured === 5);
  cluster.put("deployments", "api", { configured: 5, actual: 4 });
  await until("four run", () => scaler.replicasOf(TEXT)?.actual === 4);
  cluster.put("deployments", "api", { configured: 0, actual: 0 });
  // Without a number that is wanted, nobody is corrected.
  want(undefined);
  await until("none run", () => scaler.replicasOf(TEXT)?.actual === 0);
  assert.deepEqual(cluster.writes, ["api=5"]);
  assert.deepEqual(scaler.counts, { scaled: 1, conflict: 0, failed: 0 });
  const [{ subject, event } = assert.fail("no event"), ...more] = recorded;
  assert.deepEqual(more, []);
  assert.match(subject.uid ?? "", /./);
  assert.equal(subject.name, "api");
  assert.deepEqual(event, {
    type: "Normal",
    reason: "Scaled",
    note: "set from 1 to 5 replicas, as a policy decides",
  });
});

test("a number that is there already is not written", async (t) => {
  const { cluster, scaler, want } = await setting(t);
  cluster.put("deployments", "api", { configured: 3, actual: 3 });
  want(3);
  await until("they are known", () => scaler.replicasOf(TEXT)?.configured === 3);
  want(2);
  await until("they are set", () => cluster.writes.length > 0);
  assert.deepEqual(cluster.writes, ["api=2"]);
});

for (const [conflicts, failed] of [
  [1, 0],
  [5, 0],
  [6, 1],
] as const) {
  test(`a change by somebody else in between is kept, ${conflicts} times`, async (t) => {
    const { cluster, scaler, want, later } = await setting(t);
    cluster.put("deployments", "api", { configured: 1, actual: 1 });
    let left: number = conflicts;
    cluster.beforeWrite = () => {
      if (left === 0) return;
      left -= 1;
      cluster.put("deployments", "api", { configured: 1, actual: left + 10 });
    };
    want(5);
    await later("it is set", () => cluster.configured("deployments", "api") === 5);
    assert.deepEqual(cluster.writes, ["api=5"]);
    await later("it is noticed", () => scaler.replicasOf(TEXT)?.configured === 5);
    assert.equal(scaler.replicasOf(TEXT)?.actual, 10);
    // A sixth conflict in a row is a failure, and after a pause the attempt is made again.
    assert.deepEqual(scaler.counts, { scaled: 1, conflict: conflicts, failed });
    assert.equal(scaler.faultOf(TEXT), undefined);
  });
}

test("a newer decision cancels the attempt under way, wherever that is", async (t) => {
  for (const stage of ["beforeRead", "beforeWrite"] as const) {
    const { cluster, want } = await setting(t);
    cluster.put("deployments", "api", { configured: 1, actual: 1 });
    const held: string[] = [];
    // The server never answers the first attempt.
    cluster[stage] = ({ method }) => {
      if (held.length > 0) return false;
      held.push(method);
      return true;
    };
    want(9);
    await until("the first attempt hangs", () => held.length === 1);
    want(4);
    await until("the second one is done", () => cluster.writes.length > 0);
    assert.deepEqual(cluster.writes, ["api=4"], stage);
  }
});

test("a decision that is withdrawn changes nothing, even while it is tried", async (t) => {
  const { cluster, scaler, want, later, logged } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  cluster.beforeWrite = ({ reply }) => {
    reply(503, { message: "not now" });
    return true;
  };
  want(9);
  await later("it has failed", () => scaler.counts.failed > 1);
  want(undefined);
  cluster.beforeWrite = () => undefined;
  await later("the replicas can be read", () => scaler.faultOf(TEXT) === undefined);
  cluster.put("deployments", "api", { configured: 1, actual: 2 });
  await later("it is still followed", () => scaler.replicasOf(TEXT)?.actual === 2);
  assert.deepEqual(cluster.writes, []);
  assert.equal(logged("will be retried"), 0, "an outage is logged once for all objects");
  assert.equal(logged("can be read and set again"), 0);
});

test("what fails is said once, tried again with pauses, and said when it works", async (t) => {
  const { cluster, scaler, want, later, logged } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  cluster.beforeWrite = ({ reply }) => {
    reply(403, { reason: "Forbidden", message: "cannot update deployments/scale" });
    return true;
  };
  want(2);
  await later("it has failed often", () => scaler.counts.failed >= 4);
  assert.equal(scaler.faultOf(TEXT)?.code, "PERMISSION_DENIED");
  assert.match(scaler.fault?.message ?? "", /cannot update deployments\/scale/);
  assert.equal(logged("will be retried"), 1);
  assert.deepEqual(scaler.sizes, { followed: 0, faulty: 1 });
  // Events in between do not make it try more often.
  const attempts = () => cluster.api.asked.filter(({ method }) => method === "PUT").length;
  const before = attempts();
  for (let actual = 2; actual < 12; actual++)
    cluster.put("deployments", "api", { configured: 1, actual });
  assert.ok(attempts() - before <= 1);
  cluster.beforeWrite = () => undefined;
  await later("it is set", () => cluster.configured("deployments", "api") === 2);
  await later("it is noticed", () => scaler.fault === undefined);
  assert.equal(logged("can be read and set again"), 1);
});

test("whoever changes the number back is corrected every ten seconds at most", async (t) => {
  const { cluster, clock, scaler, want, later } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  want(3);
  await until("it is set", () => cluster.writes.length === 1);
  await until("it is noticed", () => scaler.replicasOf(TEXT)?.configured === 3);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  await until("the change is noticed", () => scaler.replicasOf(TEXT)?.configured === 1);
  clock.advance(9_999);
  cluster.put("deployments", "api", { configured: 1, actual: 2 });
  assert.equal(cluster.writes.length, 1);
  clock.advance(1);
  await later("it is corrected", () => cluster.writes.length === 2);
  // Another number is set at once.
  want(4);
  await until("it is set", () => cluster.writes.length === 3);
  assert.deepEqual(cluster.writes, ["api=3", "api=3", "api=4"]);
});

test("an object that comes, goes and comes again", async (t) => {
  const { cluster, scaler, want, later, logged } = await setting(t);
  want(2);
  await later("it is missed", () => scaler.faultOf(TEXT) !== undefined);
  assert.equal(scaler.faultOf(TEXT)?.message, "there is no apps/v1 Deployment shop/api");
  // That is no fault of the cluster.
  assert.equal(scaler.fault, undefined);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  await until("it is scaled", () => cluster.configured("deployments", "api") === 2);
  cluster.remove("deployments", "api");
  await until("it is missed", () => scaler.replicasOf(TEXT) === undefined);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  // A new object is scaled at once, although the old one was a moment ago.
  await until("the new one is scaled", () => cluster.writes.length === 2);
  await until("that is logged", () => logged("set the number of replicas") === 2);
});

test("a custom resource whose kind is defined later", async (t) => {
  const { cluster, clock, scaler } = await setting(t);
  const object = { ...API, apiVersion: "example.com/v1", kind: "Shop" };
  const text = objectText(object);
  const job = { ...API, apiVersion: "batch/v1", kind: "Job" };
  scaler.set(
    new Map([
      [text, { object, replicas: 3 }],
      [objectText(job), { object: job, replicas: 1 }],
    ]),
  );
  await until("it is missed", () => scaler.faultOf(text) !== undefined);
  assert.equal(
    scaler.faultOf(objectText(job))?.message,
    "the cluster has no kind Job of batch/v1 with a scale",
  );
  const shops = { group: "example.com", version: "v1", plural: "shops", kind: "Shop" };
  cluster.kinds = [...cluster.kinds, { ...shops, hasScale: true }];
  cluster.put("shops", "api", { configured: 1, actual: 1 });
  await until("it is found", () => {
    clock.advance(5_000);
    return cluster.configured("shops", "api") === 3;
  });
});

test("an object is found at once, also while another kind is searched for", async (t) => {
  const { cluster, scaler, want } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  const object = { ...API, kind: "Unknown" };
  const unknown = [objectText(object), { object, replicas: 1 }] as const;
  scaler.set(new Map([unknown]));
  await until("it is missed", () => scaler.faultOf(unknown[0]) !== undefined);
  scaler.set(new Map([unknown, [TEXT, { object: API, replicas: 2 }]]));
  await until("it is scaled", () => cluster.configured("deployments", "api") === 2);
  want(2);
  await until("nothing is wrong any more", () => scaler.sizes.faulty === 0);
});

test("HorizontalPodAutoscalers of the same object are found, and no others", async (t) => {
  const { cluster, scaler, want } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  const { apiVersion, kind, name } = API;
  cluster.autoscale("other-name", { apiVersion, kind, name: "web" });
  cluster.autoscale("other-kind", { apiVersion, kind: "StatefulSet", name });
  cluster.autoscale("other-group", { apiVersion: "example.com/v1", kind, name });
  want(1);
  await until("they are followed", () => cluster.api.watches.length === 2);
  assert.deepEqual(scaler.autoscalersOf(TEXT), []);
  // Whatever version of the group it names, it is the same object.
  cluster.autoscale("own", { apiVersion: "apps/v1beta2", kind, name });
  await until("it is found", () => scaler.autoscalersOf(TEXT).length > 0);
  assert.deepEqual(scaler.autoscalersOf(TEXT), ["own"]);
  cluster.remove("horizontalpodautoscalers", "own");
  await until("it is gone", () => scaler.autoscalersOf(TEXT).length === 0);
});

test("while the API server is away, what is known stays; then decisions are made up for", async (t) => {
  const { cluster, scaler, want, later } = await setting(t);
  cluster.put("deployments", "api", { configured: 2, actual: 2 });
  want(2);
  await until("they are known", () => scaler.replicasOf(TEXT)?.actual === 2);
  cluster.api.away = true;
  await later("it is noticed", () => scaler.faultOf(TEXT) !== undefined);
  assert.deepEqual(scaler.replicasOf(TEXT), { configured: 2, actual: 2 });
  want(6);
  want(5);
  await later("it is tried", () => scaler.counts.failed > 0);
  cluster.api.away = false;
  await later("it is made up for", () => cluster.configured("deployments", "api") === 5);
  assert.deepEqual(cluster.writes, ["api=5"]);
  await later("it is noticed", () => scaler.fault === undefined);
});

test("objects that nobody names any more are not followed", async (t) => {
  const { cluster, scaler, want } = await setting(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  want(1);
  await until("they are followed", () => cluster.api.watches.length === 2);
  scaler.set(new Map());
  await until("the watches end", () => cluster.api.watches.every((watch) => !watch.isOpen()));
  assert.deepEqual(scaler.sizes, { followed: 0, faulty: 0 });
  assert.equal(scaler.replicasOf(TEXT), undefined);
});

test("more objects than a controller scales are left out, counted and named", async (t) => {
  const { scaler } = await setting(t);
  const wanted = new Map(
    Array.from({ length: MAX_OBJECTS + 2 }, (_, at) => {
      const object = { ...API, kind: "Unknown", name: `n${at}` };
      return [objectText(object), { object, replicas: 1 }] as const;
    }),
  );
  scaler.set(wanted);
  const last = [...wanted.keys()].at(-1) ?? "";
  assert.equal(scaler.faultOf(last)?.code, "RESOURCE_EXHAUSTED");
  await until("the others are known", () => scaler.sizes.faulty === MAX_OBJECTS + 2);
});
