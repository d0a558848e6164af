// Limits that no policy states, in the status and in the log: adaptive limits, and load schedulers without a valid decision.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LimitsInForce } from "#agent/limits-in-force.ts";
import type { AdaptiveSummary } from "#flow/counters/adaptive-limits.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { load, loadRule, passed, SchedulerBench, VirtualClock } from "../flow/schedule/kit.ts";
import { memoryLog } from "../kit/sluice/log.ts";

function setup() {
  const metrics = new FlowMetrics({ agent_group: "default" });
  const bench = new SchedulerBench(loadRule(), undefined, { observer: metrics });
  const { clock } = bench;
  const { component } = bench.limiter;
  const log = memoryLog();
  const status = new StatusNode(clock);
  const limits = new LimitsInForce({
    clock,
    log,
    status,
    components: () => [component],
    gauges: (name) => metrics.gauges(name),
  });
  const shown = () => {
    const { policyName, componentId } = component;
    const node = status.find(`policy/${policyName}/component/${componentId}`);
    const { message, error } = node?.view().status ?? {};
    return error?.message ?? message?.value;
  };
  const numbers = () => {
    const found = new Map<string, number>();
    metrics.collect({
      wants: () => true,
      buckets: () => undefined,
      summary: () => undefined,
      number: (name, labels, value) => void found.set([name, ...labels.slice(3)].join(" "), value),
    });
    return found;
  };
  /** Ten flows a second; returns how many passed. */
  const drive = (seconds: number) => {
    let count = 0;
    for (let at = 0; at < 10 * seconds; at++) {
      if (passed(bench.ask({}, { patienceMs: 0 })) === true) count++;
      clock.advance(100);
    }
    return count;
  };
  return { bench, metrics, component, log, limits, shown, numbers, drive };
}

test("a load scheduler without a valid decision lets everything pass, and status, metric and log say so", async () => {
  const { bench, limits, log, shown, numbers, drive } = setup();
  assert.equal(shown(), undefined, "its rule is not in force");
  bench.limiter.showGauges?.();
  assert.equal(drive(1), 10);
  assert.match(String(shown()), /^this load scheduler has no decision of a controller yet/);
  assert.equal(numbers().get("sluice_load_condition no_decision"), 1);
  assert.equal(numbers().get("sluice_anomalies_total"), 10);
  drive(60);
  const warned = () => log.lines.filter(({ level }) => level === "warn");
  assert.equal(warned().length, 1, "one line for an episode");
  assert.match(warned()[0]?.message ?? "", /let every flow pass: policy\/root\.0$/);

  const decide = () => bench.limiter.decide(load(0.5, { validUntil: bench.clock.wall() + 50_000 }));
  decide();
  assert.equal(drive(11) < 110, true, "it limits");
  assert.match(
    String(shown()),
    /^this load scheduler lets a share of 0.5 pass: [45](\.\d+)? tokens per second$/,
  );
  assert.deepEqual(
    [numbers().get("sluice_load_condition limiting"), numbers().get("token_bucket_lm_ratio")],
    [1, 0.5],
  );
  assert.equal(log.lines.at(-1)?.message, "all load schedulers have a valid decision again");

  drive(40);
  assert.equal(drive(10), 100);
  assert.match(String(shown()), /^the last decision of a controller is too old/);
  assert.deepEqual(
    [numbers().get("sluice_load_condition out_of_date"), numbers().get("token_bucket_lm_ratio")],
    [1, 1],
  );
  drive(20);
  assert.equal(warned().length, 2);
  decide();
  drive(11);
  assert.equal(log.lines.length, 4);
  bench.limiter.decide(load(0.5, { passThrough: true }));
  assert.equal(shown(), "this load scheduler is told to let every flow pass");
  await limits.close();
});

test("a load scheduler that measures says so", async () => {
  const { bench, limits, log, shown, drive } = setup();
  bench.limiter.showGauges?.();
  bench.limiter.decide(load(0));
  assert.equal(drive(29), 290);
  assert.equal(shown(), "this load scheduler measures the load: every flow passes");
  assert.deepEqual(log.lines, []);
  await limits.close();
});

test("adaptive limits and latencies are shown, or that another agent counts the flows", async () => {
  const { metrics, component, limits, shown } = setup();
  let summary: AdaptiveSummary | undefined;
  metrics.adapted(component, { summary: () => summary });
  assert.equal(shown(), "another agent counts the keys of this limiter, or no flow has come yet");
  const one = { keys: 1, lowest: 20, highest: 20 };
  summary = { ...one, lowestLatency: undefined, highestLatency: undefined };
  assert.equal(shown(), "a limit of 20");
  summary = { ...one, lowestLatency: 12.345, highestLatency: 12.345 };
  assert.equal(shown(), "a limit of 20, 12.3 ms without a queue");
  summary = { keys: 3, lowest: 4.5, highest: 20, lowestLatency: 12, highestLatency: 90 };
  assert.equal(shown(), "a limit of 4.5 to 20 for 3 keys, 12 to 90 ms without a queue");
  await limits.close();
});

test("a status reads the numbers of each component a fixed number of times, however many policies there are", async () => {
  const clock = new VirtualClock();
  const status = new StatusNode(clock);
  const components = Array.from({ length: 200 }, (_, at) => ({
    kind: "concurrency_limiter" as const,
    policyName: `policy-${at}`,
    policyHash: "hash",
    componentId: "root.0",
  }));
  let read = 0;
  let plan: readonly (typeof components)[number][] = components;
  const limits = new LimitsInForce({
    clock,
    log: memoryLog(),
    status,
    components: () => plan,
    gauges: () => {
      read++;
      return { adaptive: { summary: () => undefined } };
    },
  });
  assert.equal(Object.keys(status.view().groups).length, 200);
  assert.ok(read <= 4 * 200, `${read} times`);
  plan = components.slice(0, 3);
  assert.deepEqual(Object.keys(status.view().groups).length, 3, "those of the new plan");
  assert.equal(status.find("policy/policy-7"), undefined);
  await limits.close();
});
