// The offered load of a queue: rates by priority, of late, and bounded for each workload.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OfferedLoad } from "#flow/schedule/queue/offered-load.ts";

const request = (workload: string, priority: number, tokens = 1) => ({
  workload,
  priority,
  tokens,
  fairness: undefined,
});

/** Arrivals of a workload at an even rate, per second. */
function arrive(load: OfferedLoad, workload: string, priority: number, rate: number, seconds = 10) {
  for (let at = 0; at < seconds * rate; at++) {
    load.arrived(request(workload, priority), (at * 1_000) / rate);
  }
}

const near = (got: number, wanted: number) =>
  assert.ok(Math.abs(got / wanted - 1) < 0.05, `${got}, wanted ${wanted}`);

test("adds up the rates of workloads, each times its priority", () => {
  const load = new OfferedLoad(0);
  arrive(load, "high", 4, 50);
  arrive(load, "low", 1, 100);
  near(load.weight(1, 0, 10_000), (4 * 50 + 100) / 1_000);
  near(load.weight(1, 2, 10_000), (4 * 50 + 2 * 100) / 1_000);
});

test("one flow of another priority does not set that of its workload", () => {
  const load = new OfferedLoad(0);
  arrive(load, "one", 4, 100);
  load.arrived(request("one", 1), 10_000);
  near(load.weight(1, 0, 10_000), 0.4);
  load.arrived(request("free", 1, 0), 10_000);
  near(load.weight(1, 0, 10_000), 0.4);
});

test("counts a workload for no more than there is", () => {
  const load = new OfferedLoad(0);
  arrive(load, "low", 2, 5_000);
  near(load.weight(0.1, 0, 10_000), 2 * 0.1);
});

test("knows a rate soon, and forgets it when nothing arrives any more", () => {
  const load = new OfferedLoad(0);
  arrive(load, "one", 1, 100, 0.5);
  near(load.weight(1, 0, 500), 0.1);
  assert.ok(load.weight(1, 0, 20_000) < 0.001);
});

test("tells a bounded number of workloads apart", () => {
  const load = new OfferedLoad(0);
  for (let at = 0; at < 10_000; at++) load.arrived(request(`w${at}`, 1), 1_000);
  // All beyond the bound together count for as much as one.
  assert.ok(load.weight(0.001, 0, 1_000) < 0.1);
});
