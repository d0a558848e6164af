// A controller that becomes the leader, and whose sources lack policies that its predecessor left in the store.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { API_POLICIES, DYNAMIC_CONFIGS, POLICIES } from "#sync/keys.ts";
import { encode } from "#wire/protobuf/messages.ts";
import {
  type Bench,
  type BenchOptions,
  bench,
  counting,
  decisionsOf,
  fault,
  variable,
} from "../kit.ts";

const GUARD = "SVC_CONTROLLER_POLICIES_REMOVAL_GUARD";
const FILES = { "a.yaml": counting(), "b.yaml": variable(), "c.yaml": variable(7) };

/** A controller that led with these files, and has stopped. */
async function predecessor(t: TestContext, files: BenchOptions["files"] = FILES) {
  const store = memoryStore();
  const before = await bench(t, { store, files, sharesStore: true });
  return { store, before };
}

function takesOver(t: TestContext, store: Store, more: BenchOptions = {}): Promise<Bench> {
  return bench(t, { store, sharesStore: true, ...more });
}

const names = ({ controller }: Bench) => [...controller.policies.list().keys()];

async function stored(store: Store): Promise<readonly string[]> {
  const { entries } = await store.list(POLICIES);
  return entries.map(({ key }) => key.slice(POLICIES.length));
}

const guardStatus = ({ status }: Bench) => status.find("system/policies/system/removal_guard");

async function keptNumber({ metrics }: Bench) {
  const { body } = await metrics.scrape();
  return /^sluice_policies{state="kept"} (\d+)$/m.exec(String(body))?.[1];
}

const complaint = ({ logged }: Bench) =>
  logged.filter((line) => /policies\.removal_guard/.test(line));

test("a new leader without the policies in force keeps them running, and says which and what to do", async (t) => {
  const { store, before } = await predecessor(t);
  for (let ticks = 0; ticks < 12; ticks++) {
    before.clock.advance(1_000);
    await before.turn();
  }
  await before.controller.stop("drain");
  const { entries: rules } = await store.list("/config/rate_limiter/");
  const made = await takesOver(t, store);
  assert.deepEqual(names(made), ["a", "b", "c"]);
  assert.deepEqual(await store.list("/config/rate_limiter/").then(({ entries }) => entries), rules);
  assert.equal(complaint(made).length, 1);
  const [line = ""] = complaint(made);
  assert.match(line, /^3 of 3 policies in force are in no source of this controller/);
  assert.match(
    line,
    /more than policies\.removal_guard \(0\.5\) lets it remove when it becomes the leader/,
  );
  assert.match(
    line,
    /they stay in force: a; b; c; make their documents available .*`sluice policy delete NAME`/,
  );
  assert.match(
    guardStatus(made)?.firstError() ?? "",
    /no source of this controller has: a; b; c; make/,
  );
  assert.equal(await keptNumber(made), "3");
  const { status, reason } = made.controller.policies.get("a");
  assert.equal(status, "STALE");
  assert.match(
    reason,
    /^no source of this controller has it, and policies\.removal_guard keeps it/,
  );
  // Its circuit goes on from the checkpoint of the earlier leader.
  const capacity = async () => {
    const [key] = [...(await decisionsOf(made)).keys()].filter((each) => each.startsWith("a "));
    return (await decisionsOf(made)).get(key ?? "")?.rateLimiterDecision?.bucketCapacity ?? 0;
  };
  const first = await capacity();
  assert.ok(first > 10, `${first}`);
  made.clock.advance(1_000);
  await made.turn();
  assert.equal(await capacity(), first + 1);
});

test("up to half of the policies are removed; 0 keeps each of them, and 1 none", async (t) => {
  for (const [files, guard, left] of [
    [{ "a.yaml": counting(), "b.yaml": variable() }, undefined, "a,b"],
    [{ "a.yaml": counting() }, undefined, "a,b,c"],
    [{ "a.yaml": counting(), "b.yaml": variable() }, "0", "a,b,c"],
    [{}, "1", ""],
  ] as const) {
    const { store, before } = await predecessor(t);
    await before.controller.stop("drain");
    const env = guard === undefined ? {} : { [GUARD]: guard };
    const made = await takesOver(t, store, { files, env });
    assert.equal(names(made).join(), left, `${Object.keys(files)} with ${guard}`);
    assert.equal((await stored(store)).join(), left);
  }
});

test("one of two policies is removed, and the only one is kept", async (t) => {
  const files = { "a.yaml": counting(), "b.yaml": variable() };
  const { store, before } = await predecessor(t, files);
  await before.controller.stop("drain");
  const half = await takesOver(t, store, { files: { "a.yaml": counting() } });
  assert.deepEqual(names(half), ["a"]);
  assert.deepEqual(complaint(half), []);
  await half.controller.stop("drain");
  const none = await takesOver(t, store);
  assert.deepEqual(names(none), ["a"]);
  assert.equal(complaint(none).length, 1);
});

test("a policy that a file has again is the file's: it goes with the file, and the others stay", async (t) => {
  const { store, before } = await predecessor(t);
  await before.controller.stop("drain");
  const made = await takesOver(t, store);
  made.write("b.yaml", variable(9));
  const complains = (words: RegExp) => words.test(guardStatus(made)?.firstError() ?? "");
  await made.when("the file has it", () => complains(/has: a; c; make/));
  assert.equal(made.controller.policies.get("b").status, "VALID");
  assert.match(JSON.stringify(made.controller.policies.get("b").policy), /"value":9/);
  made.remove("b.yaml");
  await made.when("it is removed", () => names(made).join() === "a,c");
  made.write("a.yaml", counting());
  made.write("c.yaml", variable(7));
  await made.when("all have sources", () => guardStatus(made)?.firstError() === undefined);
  assert.equal(await keptNumber(made), "0");
  assert.ok(made.logged.includes("every policy in force has a source again"));
});

test("a person removes kept policies over the API, replaces them and configures them", async (t) => {
  const { store, before } = await predecessor(t);
  await before.controller.stop("drain");
  const made = await takesOver(t, store);
  const { policies } = made.controller;
  await policies.remove("a");
  assert.deepEqual(await stored(store), ["b", "c"]);
  assert.deepEqual(names(made), ["b", "c"]);
  await policies.configure("b", { limit: { value: 3 } });
  assert.match(JSON.stringify(policies.dynamicConfig("b")), /"value":3/);
  await policies.upsert("c", variable(8));
  assert.equal(policies.get("c").status, "VALID");
  assert.equal(await keptNumber(made), "1");
  await policies.remove("b");
  await policies.remove("c");
  assert.deepEqual(names(made), []);
  assert.deepEqual(await stored(store), []);
  assert.equal(guardStatus(made)?.firstError(), undefined);
});

test("the dynamic configuration that was in force stays in force", async (t) => {
  const files = { "b.yaml": variable(), "b.dynamic.yaml": "limit: { value: 4 }\n" };
  const { store, before } = await predecessor(t, files);
  await before.controller.stop("drain");
  const made = await takesOver(t, store);
  assert.deepEqual(made.controller.policies.dynamicConfig("b"), { limit: { value: 4 } });
  const [decision] = (await decisionsOf(made)).values();
  assert.equal(decision?.rateLimiterDecision?.bucketCapacity, 4);
});

test("a policy of the API whose document is gone was removed; one that cannot be used any more is kept", async (t) => {
  const { store, before } = await predecessor(t, {});
  const { policies } = before.controller;
  for (const name of ["a", "b", "c"]) await policies.upsert(name, variable());
  await before.controller.stop("drain");
  const value = new TextEncoder().encode("circuit: {}\nnonsense: 1\n");
  await store.commit([
    { kind: "delete", key: `${API_POLICIES}a` },
    { kind: "delete", key: `${API_POLICIES}b` },
    { kind: "delete", key: `${API_POLICIES}c` },
  ]);
  const removed = await takesOver(t, store);
  assert.deepEqual(names(removed), []);
  await removed.controller.policies.upsert("a", variable());
  await removed.controller.stop("drain");
  await store.commit([{ kind: "put", key: `${API_POLICIES}a`, value }]);
  const made = await takesOver(t, store);
  assert.equal(made.controller.policies.get("a").status, "OUTDATED");
  assert.match(made.controller.policies.get("a").reason, /nonsense/);
  await made.controller.policies.remove("a");
  assert.deepEqual(names(made), []);
});

test("policies that were removed from the API do not count among those that too many sources lack", async (t) => {
  const { store, before } = await predecessor(t);
  const { policies } = before.controller;
  for (const name of ["d", "e"]) await policies.upsert(name, variable());
  await before.controller.stop("drain");
  await store.commit([
    { kind: "delete", key: `${API_POLICIES}d` },
    { kind: "delete", key: `${API_POLICIES}e` },
  ]);
  const made = await takesOver(t, store, {
    files: { "a.yaml": counting(), "b.yaml": variable() },
  });
  assert.deepEqual(names(made), ["a", "b"]);
  assert.deepEqual(complaint(made), []);
});

test("a policy under another name that has taken its flux meter takes its place, at the start and later", async (t) => {
  const meter = `${variable()}resources: { flow_control: { flux_meters: { m: { selectors: [{ control_point: m, agent_group: default }] } } } }\n`;
  const renamed = { "new.yaml": meter };
  for (const when of ["at the start", "later"]) {
    const { store, before } = await predecessor(t, { "old.yaml": meter });
    await before.controller.stop("drain");
    const made = await takesOver(t, store, when === "later" ? {} : { files: renamed });
    if (when === "later") {
      assert.deepEqual(names(made), ["old"]);
      made.write("new.yaml", meter);
    }
    const isOver = () => guardStatus(made)?.firstError() === undefined;
    await made.when("the new one runs alone", () => names(made).join() === "new" && isOver());
    assert.equal(complaint(made).length, when === "later" ? 1 : 0);
    assert.match(made.logged.join("\n"), /^no longer kept: .*flux meter.*policy new/m);
    assert.equal(await keptNumber(made), "0");
  }
});

test("a controller that cannot read what it would have to keep does not lead", async (t) => {
  const { store, before } = await predecessor(t, { "b.yaml": variable() });
  await before.controller.stop("drain");
  const key = `${POLICIES}b`;
  const wrapper = (policy: object | null) =>
    encode("aperture.policy.sync.v1.PolicyWrapper", { policy } as never);
  for (const [value, why] of [
    [Buffer.from([255]), `${key}: `],
    [wrapper(null), `${key}: the value holds no policy$`],
    [wrapper({}), `${key}:1:1: wanted a policy`],
  ] as const) {
    await store.commit([{ kind: "put", key, value }]);
    const words = new RegExp(`^policies.removal_guard: .* cannot be read from the store: ${why}`);
    await assert.rejects(takesOver(t, store), fault("FAILED_PRECONDITION", words));
    assert.equal((await store.list("/config/rate_limiter/")).entries.length, 1);
  }
  const { store: other, before: first } = await predecessor(t, { "b.yaml": variable() });
  await first.controller.stop("drain");
  const config = `${DYNAMIC_CONFIGS}b`;
  await other.commit([{ kind: "put", key: config, value: Buffer.from("{") }]);
  const words = new RegExp(`cannot be read from the store: ${config}: the value is not JSON$`);
  await assert.rejects(takesOver(t, other), fault("FAILED_PRECONDITION", words));
});
