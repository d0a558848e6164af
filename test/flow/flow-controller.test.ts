import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { SharedCounters } from "#flow/counters/shared-counters.ts";
import { Pending, type SlotReturn } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { fakeClock } from "../kit/clock.ts";
import { recordingObserver } from "../kit/sluice/flow.ts";
import { concurrency, concurrencyRule } from "./limit/setup.ts";

/** Concurrency limiters of one policy, whose slots agents share. Whether one of them knew a slot is answered later. */
function sharedSlots(count: number) {
  const asked: number[] = [];
  const waiting: Pending<boolean>[] = [];
  let inForce = 0;
  const sharedCounters: SharedCounters = {
    buckets: () => assert.fail("there is no rate limiter"),
    slots: () => {
      // Rules are also tried without coming into force; only those in force get numbers.
      let number = -1;
      return {
        peek: () => UNDECIDED,
        take: () => UNDECIDED,
        giveBack: () => {
          asked.push(number);
          const answer = new Pending<boolean>();
          waiting.push(answer);
          return answer;
        },
        adopt: () => {
          number = inForce++;
        },
        close: () => undefined,
      };
    },
  };
  const context = {
    clock: fakeClock(),
    chance: seededChance(1),
    observer: recordingObserver(),
    maxKeys: 100,
    sharedCounters,
  };
  const book = new Rulebook("default", context);
  const controlPoint = { controlPoint: "here", agentGroup: "default", service: "any" } as const;
  const selectors = [
    { ...controlPoint, matcher: { labels: {}, list: [], expression: undefined } },
  ] as const;
  const ids = Array.from({ length: count }, (_, at) => `root.${at}`);
  const refused = book.apply({
    rules: new Map(
      ids.map((componentId) => [componentId, concurrencyRule({ componentId, selectors })]),
    ),
    numbers: new Map(ids.map((componentId) => [componentId, { ...concurrency(5), componentId }])),
  });
  assert.deepEqual(refused, []);
  const { end } = createFlowController(book, context);
  return {
    asked,
    answer: (known: boolean) => waiting.shift()?.settle(known),
    /** Ends slots that another version of the policy took. Each reply is there once it has come. */
    end(...requestIds: readonly string[]): readonly (readonly SlotReturn[])[] {
      const old = { policyName: "policy", policyHash: "old", componentId: "root.9" };
      const ended = end(
        requestIds.map((requestId) => ({ ...old, label: "default", requestId, tokens: 1 })),
      );
      assert.ok(ended instanceof Pending);
      const replies: (readonly SlotReturn[])[] = [];
      ended.whenSettled(
        (reply) => void replies.push(reply),
        () => assert.fail(),
      );
      return replies;
    },
  };
}

const RETURNED = { returned: true, error: "" };
const UNKNOWN = { returned: false, error: "" };

test("a slot of an older version is looked for in one limiter after the other, until one knows it", () => {
  const { asked, answer, end } = sharedSlots(3);
  const replies = end("id");
  assert.deepEqual(asked, [0]);
  answer(false);
  assert.deepEqual([asked, replies], [[0, 1], []]);
  answer(true);
  assert.deepEqual([asked, replies], [[0, 1], [[RETURNED]]]);
});

test("a slot that no limiter knows is not returned", () => {
  const { asked, answer, end } = sharedSlots(2);
  const replies = end("id");
  answer(false);
  answer(false);
  assert.deepEqual([asked, replies], [[0, 1], [[UNKNOWN]]]);
});

test("the reply has the slots in the order of the request, once the last one has ended", () => {
  const { asked, answer, end } = sharedSlots(1);
  const replies = end("one", "two");
  assert.deepEqual(asked, [0, 0]);
  answer(false);
  assert.deepEqual(replies, []);
  answer(true);
  assert.deepEqual(replies, [[UNKNOWN, RETURNED]]);
});
