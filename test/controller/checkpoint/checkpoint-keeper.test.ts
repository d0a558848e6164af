// A controller goes on from the checkpoints that the one before left in the store: what is written, when, and what is not
// used.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { CheckpointKeeper } from "#controller/checkpoint/checkpoint-keeper.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";
import { type Bench, bench, counting, decisionsOf, variable } from "../kit.ts";

const KEY = "/checkpoints/c";
const ROUND = 10_000;

/** Controllers that follow one another over one store, on one clock. */
function controllers(t: TestContext, files: Readonly<Record<string, string>>) {
  const store = memoryStore();
  const clock = fakeClock();
  const start = (changed: Parameters<typeof bench>[1] = {}) =>
    bench(t, { files, store, clock, sharesStore: true, ...changed });
  return { store, clock, start };
}

const capacity = async (of: Bench) => {
  const [first] = [...(await decisionsOf(of)).values()];
  return first === undefined ? Number.NaN : (first.rateLimiterDecision?.bucketCapacity ?? 0);
};

const stored = async (store: Store) =>
  (await store.list("/checkpoints/")).entries.map(({ key }) => key);

/** Checkpoints that were committed, by key. */
const written = ({ commits }: Bench) =>
  commits.flatMap((commit) => [...commit.keys()]).filter((key) => key.startsWith("/checkpoints/"));

const counts = ({ metrics }: Bench) =>
  Object.fromEntries(
    [...metrics.samples((name) => name === "sluice_policy_checkpoints_total")].map(
      ({ labels, value }) => [labels["result"], value],
    ),
  );

/** Advances the clock tick by tick. */
async function tick({ clock, turn }: Bench, times: number) {
  for (let at = 0; at < times; at++) {
    clock.advance(1_000);
    await turn();
  }
}

test("the next controller goes on where the last checkpoint was made", async (t) => {
  const { start, store } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  assert.deepEqual(await stored(store), [], "nothing before the first round");
  await tick(first, 10);
  assert.deepEqual(await stored(store), [KEY]);
  assert.equal(await capacity(first), 10);
  await tick(first, 5);
  assert.deepEqual(written(first), [KEY], "one in ten seconds");
  // The process is killed: nothing is written any more.
  first.setStore("failing");
  const second = await start();
  const resumed = await capacity(second);
  assert.ok(resumed >= 10 && resumed <= 11, `${resumed}`);
  assert.ok(second.logged.includes("circuits go on from their checkpoints"));
  await tick(second, 2);
  assert.equal(await capacity(second), resumed + 2);
  assert.deepEqual(counts(second), { written: 0, failed: 0, restored: 1, ignored: 0 });
});

test("an orderly stop leaves what was remembered last", async (t) => {
  const { start } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  await tick(first, 13);
  const before = await capacity(first);
  await first.controller.stop("drain");
  assert.equal(await capacity(await start()), before + 1);
});

test("a checkpoint is written again only when its circuit remembers something else, or it would grow too old", async (t) => {
  const { start, store } = controllers(t, { "v.yaml": variable() });
  const first = await start({ env: { SVC_CONTROLLER_POLICIES_CHECKPOINTS_MAX_AGE: "2m" } });
  await tick(first, 55);
  assert.deepEqual(written(first), ["/checkpoints/v"]);
  await tick(first, 20);
  assert.equal(written(first).length, 2, "after half of two minutes");
  assert.deepEqual(counts(first), { written: 2, failed: 0, restored: 0, ignored: 0 });
  assert.deepEqual(await stored(store), ["/checkpoints/v"]);
});

test("policies.checkpoints.interval is the time between two writes", async (t) => {
  const { start } = controllers(t, { "c.yaml": counting() });
  const own = await start({ env: { SVC_CONTROLLER_POLICIES_CHECKPOINTS_INTERVAL: "30s" } });
  await tick(own, 29);
  assert.deepEqual(written(own), []);
  await tick(own, 1);
  assert.deepEqual(written(own), [KEY]);
});

test("checkpoints that are too old, damaged or of another version are reported and not used", async (t) => {
  const { start, store, clock } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  await tick(first, 10);
  first.setStore("failing");
  const [entry] = (await store.list(KEY)).entries;
  const text = new TextDecoder().decode(entry?.value);
  const begins = async (why: RegExp) => {
    const next = await start();
    assert.equal(await capacity(next), 0, "the first value");
    const line = next.logged.find((each) => each.includes("its checkpoint is not used"));
    assert.match(line ?? "", why);
    assert.deepEqual(counts(next), { written: 0, failed: 0, restored: 0, ignored: 1 });
    next.setStore("failing");
  };
  const put = (changed: string) =>
    store.commit([{ kind: "put", key: KEY, value: new TextEncoder().encode(changed) }]);
  await put(text.slice(9));
  await begins(/it is not a JSON object/);
  await put(text.replace('"version":1', '"version":2'));
  await begins(/wanted version 1, got 2/);
  await put(text);
  clock.advance(10 * 60_000 + ROUND);
  await begins(/it is 6\d\d s old/);
});

test("a policy that is removed leaves no checkpoint, and one that comes back begins anew", async (t) => {
  const { start, store } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  await tick(first, 10);
  assert.deepEqual(await stored(store), [KEY]);
  first.remove("c.yaml");
  await first.when("the policy is gone", () => first.counts.loaded === 0);
  await tick(first, 10);
  assert.deepEqual(await stored(store), []);
  first.write("c.yaml", counting());
  await first.when("the policy is back", () => first.counts.loaded === 1);
  assert.ok((await capacity(first)) <= 1);
});

test("checkpoints of policies that are gone when another controller takes over are removed", async (t) => {
  const { start, store } = controllers(t, { "c.yaml": counting() });
  await store.commit([{ kind: "put", key: "/checkpoints/old", value: new Uint8Array([1]) }]);
  const first = await start();
  await tick(first, 10);
  assert.deepEqual(await stored(store), [KEY]);
});

test("a store that refuses is reported once, and the checkpoint is written later", async (t) => {
  const { start, store } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  first.setStore("failing");
  await tick(first, 35);
  const lines = first.logged.filter((line) => line.includes("checkpoints of circuits"));
  assert.deepEqual(lines, ["checkpoints of circuits are not written: internal error"]);
  assert.equal(counts(first)["failed"], 3);
  first.setStore("well");
  await tick(first, 10);
  assert.deepEqual(await stored(store), [KEY]);
  assert.ok(first.logged.includes("checkpoints of circuits are written again"));
});

test("a store that hangs holds up neither ticks nor the end", async (t) => {
  const { start } = controllers(t, { "c.yaml": counting() });
  const first = await start();
  first.setStore("stuck");
  await tick(first, 25);
  assert.equal(await capacity(first), 25, "its own view");
  assert.deepEqual(written(first), []);
});

test("a load scheduler's last decision stays in force until it decides again", async (t) => {
  const document = `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        load_scheduler:
          in_ports: { load_multiplier: { constant_signal: { value: 0.5 } } }
          parameters: { selectors: [{ control_point: l, agent_group: default }] }
`;
  const { start } = controllers(t, { "l.yaml": document });
  const first = await start();
  await tick(first, 11);
  const decided = await decisionsOf(first, "load_scheduler");
  assert.equal(decided.size, 1);
  await first.controller.stop("drain");
  const second = await start();
  assert.deepEqual(await decisionsOf(second, "load_scheduler"), decided);
});

test("in a store that ends with the process nothing is kept", async (t) => {
  const { start, store } = controllers(t, { "c.yaml": counting() });
  const first = await start({ sharesStore: false });
  await tick(first, 25);
  assert.deepEqual(await stored(store), []);
});

test("a round that fails is logged, and the next one begins all the same", async () => {
  const clock = fakeClock();
  const log = memoryLog();
  let rounds = 0;
  const keeper = new CheckpointKeeper({
    store: memoryStore(),
    settings: { interval: ROUND, max_age: 60_000 },
    clock,
    log,
  });
  const policies = {
    get size(): number {
      return 0;
    },
    [Symbol.iterator]() {
      rounds += 1;
      throw new Error("out of the blue");
    },
  };
  keeper.start(policies as unknown as ReadonlyMap<string, never>);
  for (const round of [1, 2])
    await until(`round ${round}`, () => {
      clock.advance(ROUND);
      return rounds >= round;
    });
  await keeper.close();
  const said = log.lines.filter(({ message }) => /checkpoints of circuits are not/.test(message));
  assert.equal(said.length, 1, "once");
});
