// Another `sluice controller` takes over from one that is killed, and circuits go on where they were: real processes over
// a real etcd.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decode } from "#wire/protobuf/messages.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import { leads, standsBy, startSluice } from "../kit/servers/sluice.ts";
import { until } from "../kit/until.ts";

/** The limit grows by one each tick, from 1000 on. */
const GROWING = `circuit:
  evaluation_interval: 0.2s
  components:
    - integrator:
        initial_value: 1000
        in_ports: { input: { constant_signal: { value: 1 } } }
        out_ports: { output: { signal_name: SUM } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { signal_name: SUM }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 60s }
`;

interface Saved {
  readonly circuit: { readonly states: Readonly<Record<string, { readonly sum?: number }>> };
}

test("a leader is killed: the other one takes over, and the limit goes on from the checkpoint", async (t) => {
  const { endpoints } = await startEtcd(t);
  const args = ["--policies", folderOf(t, { "p.yaml": GROWING })];
  const first = startSluice(t, "controller", endpoints, args);
  await leads(first);
  const second = startSluice(t, "controller", endpoints, args);
  await standsBy(second);

  const store = openEtcd(t, etcdSettings(endpoints));
  const limits: number[] = [];
  const stop = new AbortController();
  const following = (async () => {
    for await (const { puts, deletes } of store.watch(["/decisions/"], stop.signal)) {
      assert.deepEqual(deletes, [], "at no moment is there no limit");
      for (const { value } of puts) {
        const message = decode("aperture.policy.sync.v1.RateLimiterDecisionWrapper", value);
        limits.push(message.rateLimiterDecision?.bucketCapacity ?? Number.NaN);
      }
    }
  })();
  const checkpoint = async () => {
    const { entries } = await store.list("/checkpoints/p");
    return entries.map(({ value }) => JSON.parse(new TextDecoder().decode(value)) as Saved)[0];
  };
  await until("there is a checkpoint", async () => (await checkpoint()) !== undefined);
  const then = limits.length;
  await until("the limit goes on", () => limits.length > then + 2);

  first.kill("SIGKILL");
  await first.ended;
  const { revision } = await store.list("/decisions/");
  await until("the watch has seen all", async () => {
    const now = await store.list("/decisions/");
    assert.ok(now.revision >= revision);
    const [entry] = now.entries;
    const last = decode(
      "aperture.policy.sync.v1.RateLimiterDecisionWrapper",
      entry?.value ?? assert.fail(),
    );
    return limits.at(-1) === last.rateLimiterDecision?.bucketCapacity;
  });
  const published = limits.length;
  const saved = Object.values((await checkpoint())?.circuit.states ?? {});
  const sum = saved.find((state) => state.sum !== undefined)?.sum ?? assert.fail();
  assert.ok(
    sum > 1_000 && sum <= (limits[published - 1] ?? 0),
    "the checkpoint is younger than the start",
  );

  await leads(second);
  await until("the new leader decides", () => limits.length > published + 2);
  const [next = 0, ...more] = limits.slice(published);
  // An equal number is not written again.
  assert.ok(next === sum + 1 || next === sum + 2, `went on from ${sum} with ${next}`);
  assert.deepEqual(more.slice(0, 2), [next + 1, next + 2]);
  assert.match(second.printed(), /circuits go on from their checkpoints/);
  stop.abort();
  await following;
});
