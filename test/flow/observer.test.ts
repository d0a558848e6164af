import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge } from "#flow/check.ts";
import { type Observer, withListeners } from "#flow/observer.ts";
import { fakeClock } from "../kit/clock.ts";
import { componentOf, countedIds, flowOf, planOfSteps } from "../kit/sluice/flow.ts";

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

test("an observer with listeners counts every event once, and each listener hears of its own", () => {
  const heard: string[] = [];
  const { decided, settled } = named("b", heard);
  const all = withListeners(named("a", heard), [{ decided }, { settled }, { decided, settled }]);
  all.ended("here");
  all.lookedUp(true);
  all.anomaly("late");
  all.shed("here", true, "delay");
  all.missingLabel(componentOf(), "key");
  const flow = { workload: "w", tokens: 1, passed: true, queued: true, waitedMs: 0 };
  all.queued(componentOf());
  all.scheduled(componentOf(), { ...flow, preempted: undefined, preemptedInWorkload: undefined });
  all.settled(componentOf(), "refunded", -3);
  all.loaded(componentOf(), { condition: "limiting", multiplier: 1, fillRate: 5, available: 0 });
  all.adapted(componentOf(), { summary: () => undefined });
  assert.deepEqual(heard, [
    "a ended here",
    "a looked up true",
    "a anomaly late",
    "a shed here true delay",
    "a root.0 lacks key",
    "a queued root.0",
    "a scheduled w",
    "a refunded -3",
    "b refunded -3",
    "b refunded -3",
    "a loaded 5",
    "a adapted root.0",
  ]);
});

test("a check is reported once, when it is decided", () => {
  const heard: string[] = [];
  const { decided } = named("b", heard);
  const observer = withListeners(named("a", heard), [
    { decided },
    { decided: named("c", heard).decided },
  ]);
  const chance = seededChance(1);
  const nextDecisionId = countedIds();
  judge(planOfSteps([]), flowOf(), { clock: fakeClock(), chance, observer, nextDecisionId });
  assert.deepEqual(heard, ["a decided", "b decided", "c decided"]);
});
