// Schedulers in the check: the stages before them, limiters beside them, callers that leave, and plans that change while
// flows wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { LimiterNumbers, LimiterRule } from "#flow/rules.ts";
import { consumedBy, flowOf, recordingObserver } from "../../kit/sluice/flow.ts";
import { rate, rateRule } from "../limit/setup.ts";
import { concurrencyQueueRule, quota, quotaRule, slots, VirtualClock } from "./kit.ts";

const HERE = {
  selectors: [
    {
      controlPoint: "here",
      agentGroup: "default",
      service: "any",
      matcher: { labels: {}, list: [], expression: undefined },
    },
  ],
};

interface Asked {
  /** Undefined while the check waits. */
  verdict: Verdict | undefined;
  leave(): void;
}

/** An agent with these limiters, in the order of their components. */
function agent(...given: readonly (readonly [LimiterRule, LimiterNumbers])[]) {
  const clock = new VirtualClock();
  const observer = recordingObserver();
  const world = { clock, chance: seededChance(3), observer, maxKeys: 100 };
  const book = new Rulebook("default", world);
  const controller = createFlowController(book, world);
  const named = given.map(([rule, numbers], at) => {
    const componentId = `root.${at}`;
    return [
      { ...rule, ...HERE, componentId },
      { ...numbers, componentId },
    ] as const;
  });
  const keyOf = ({ kind, componentId }: { readonly kind: string; readonly componentId: string }) =>
    `${kind}/${componentId}`;
  book.apply({
    rules: new Map(named.map(([rule]) => [keyOf(rule), rule])),
    numbers: new Map(named.map(([rule, numbers]) => [keyOf(rule), numbers])),
  });
  return {
    clock,
    observer,
    remove: () =>
      book.apply({
        rules: new Map(named.map(([rule]) => [keyOf(rule), undefined])),
        numbers: new Map(),
      }),
    ask(flow: Partial<Flow> = {}): Asked {
      const judged = controller.judge(flowOf({ controlPoint: "here", ...flow }));
      const asked: Asked = {
        verdict: undefined,
        leave: () => (judged instanceof Pending ? judged.cancel() : undefined),
      };
      if (judged instanceof Pending) {
        judged.whenSettled(
          (verdict) => {
            asked.verdict = verdict;
          },
          (thrown) => {
            throw thrown;
          },
        );
      } else asked.verdict = judged;
      return asked;
    },
  };
}

function waits({ verdict }: Asked): boolean {
  return verdict === undefined;
}

test("D-2: a refusal in the queue gives back what earlier stages took", () => {
  const at = agent([rateRule(), rate(3, 0)], [quotaRule(), quota(1, 0)]);
  assert.equal(at.ask().verdict?.accepted, true);
  for (let again = 0; again < 5; again++) {
    const { verdict } = at.ask();
    assert.deepEqual([verdict?.reason, verdict?.deniedStatus], [RejectReason.noTokens, 503]);
    assert.deepEqual(verdict?.decisions.map(consumedBy), [0, 0]);
  }
});

test("D-13: the reported refusal is that of the limiter that refused, not of a queue that the flow left for it", () => {
  const at = agent(
    [quotaRule({}, { deniedStatus: 418 }), quota(1, 1)],
    [
      quotaRule({}, { deniedStatus: 420, limitByLabelKey: "k", onMissingLabel: "refuse" }),
      quota(1, 1),
    ],
  );
  at.ask();
  const { verdict } = at.ask();
  assert.deepEqual(
    [verdict?.deniedStatus, verdict?.decisions.map(({ dropped }) => dropped)],
    [420, [false, true]],
  );
  assert.equal(at.clock.alarms, 0, "the flow has left the queue");
});

test("a flow that waits at two schedulers leaves the one when the other refuses it", () => {
  const defaultParameters = { priority: 1, tokens: 1, queueTimeoutMs: 150 };
  const at = agent([quotaRule(), quota(1, 0.25)], [quotaRule({ defaultParameters }), quota(1, 10)]);
  at.ask();
  at.ask();
  const third = at.ask();
  at.clock.advance(99);
  assert.equal(waits(third), true);
  // Its turn at the second one comes, and 50 ms are too short for a token.
  at.clock.advance(2);
  assert.deepEqual(
    third.verdict?.decisions.map(({ dropped }) => dropped),
    [false, true],
  );
});

test("a flow holds a slot while it waits for tokens, and gives it back when it gets none", () => {
  const at = agent([concurrencyQueueRule(), slots(1)], [quotaRule(), quota(1, 0)]);
  const first = at.ask();
  assert.deepEqual(
    first.verdict?.decisions.map(({ component }) => component.kind),
    ["concurrency_scheduler", "quota_scheduler"],
  );
  const second = at.ask();
  assert.equal(waits(second), true, "it waits for the slot");
  at.clock.advance(60_001);
  assert.equal(second.verdict?.accepted, false);
});

test("a caller that leaves is abandoned, not refused, and takes nothing", () => {
  const at = agent([rateRule(), rate(5, 0)], [concurrencyQueueRule(), slots(1)]);
  at.ask();
  const before = at.observer.verdicts.length;
  const second = at.ask();
  second.leave();
  assert.equal(at.observer.verdicts.length, before);
  assert.deepEqual(at.observer.anomalies, ["abandoned"]);
  assert.equal(at.clock.alarms, 0);
});

test("the end of a queue is no late answer: it is a refusal in time", () => {
  const at = agent([concurrencyQueueRule(), slots(1)]);
  at.ask();
  const second = at.ask({ deadline: at.clock.now() + 300 });
  at.clock.advance(289);
  assert.equal(waits(second), true);
  at.clock.advance(2);
  assert.deepEqual(
    [second.verdict?.accepted, second.verdict?.reason],
    [false, RejectReason.noTokens],
  );
  assert.deepEqual(at.observer.anomalies, []);
});

test("flows that wait pass when the policy is removed", () => {
  const at = agent([concurrencyQueueRule(), slots(1)]);
  at.ask();
  const second = at.ask();
  at.remove();
  assert.equal(second.verdict?.accepted, true);
  assert.equal(at.clock.alarms, 0);
});

test("a flow in ramp mode is refused before it stands in any queue", () => {
  const at = agent([concurrencyQueueRule(), slots(1)]);
  assert.equal(at.ask({ rampMode: true }).verdict?.reason, RejectReason.noMatchingRamp);
});
