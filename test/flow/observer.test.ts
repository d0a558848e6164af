import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge } from "#flow/check.ts";
import { NO_OBSERVER, type Observer, observerOf } from "#flow/observer.ts";
import { fakeClock } from "../kit/clock.ts";
import { componentOf, flowOf, planOfSteps } from "../kit/sluice/flow.ts";

function named(name: string, heard: string[]): Observer {
  return {
    decided: () => heard.push(`${name} decided`),
    ended: (controlPoint) => heard.push(`${name} ended ${controlPoint}`),
    lookedUp: (found) => heard.push(`${name} looked up ${found}`),
    anomaly: (what) => heard.push(`${name} anomaly ${what}`),
    shed: (controlPoint, accepted, cause) =>
      heard.push(`${name} shed ${controlPoint} ${accepted} ${cause}`),
    missingLabel: ({ componentId }, what) => heard.push(`${name} ${componentId} lacks ${what}`),
    queued: ({ componentId }) => heard.push(`${name} queued ${componentId}`),
    scheduled: (_component, { workload }) => heard.push(`${name} scheduled ${workload}`),
    settled: (_component, how, difference) => heard.push(`${name} ${how} ${difference}`),
    loaded: (_component, { fillRate }) => heard.push(`${name} loaded ${fillRate}`),
    adapted: ({ componentId }) => heard.push(`${name} adapted ${componentId}`),
  };
}

test("no observer and a single observer cost nothing extra", () => {
  assert.equal(observerOf([]), NO_OBSERVER);
  const one = named("a", []);
  assert.equal(observerOf([one]), one);
});

test("several observers are called in order", () => {
  const heard: string[] = [];
  const all = observerOf([named("a", heard), named("b", heard)]);
  all.ended("here");
  all.lookedUp(true);
  all.anomaly("late");
  all.shed("here", true, "delay");
  all.missingLabel(componentOf(), "key");
  const flow = { workload: "w", tokens: 1, passed: true, queued: true, waitedMs: 0 };
  all.queued(componentOf());
  all.scheduled(componentOf(), { ...flow, overtook: undefined, overtookAlike: undefined });
  all.settled(componentOf(), "refunded", -3);
  all.loaded(componentOf(), { condition: "limiting", multiplier: 1, fillRate: 5, available: 0 });
  all.adapted(componentOf(), { summary: () => undefined });
  assert.deepEqual(heard, [
    "a ended here",
    "b ended here",
    "a looked up true",
    "b looked up true",
    "a anomaly late",
    "b anomaly late",
    "a shed here true delay",
    "b shed here true delay",
    "a root.0 lacks key",
    "b root.0 lacks key",
    "a queued root.0",
    "b queued root.0",
    "a scheduled w",
    "b scheduled w",
    "a refunded -3",
    "b refunded -3",
    "a loaded 5",
    "b loaded 5",
    "a adapted root.0",
    "b adapted root.0",
  ]);
});

test("each of several observers hears of a check once, when it is decided", () => {
  const heard: string[] = [];
  const observer = observerOf([named("a", heard), named("b", heard), named("c", heard)]);
  judge(planOfSteps([]), flowOf(), { clock: fakeClock(), chance: seededChance(1), observer });
  assert.deepEqual(heard, ["a decided", "b decided", "c decided"]);
});
