import assert from "node:assert/strict";
import { test } from "node:test";
import { heldSlots } from "#flow/check/held-slots.ts";
import type { Component, Grant } from "#flow/flow.ts";
import type { SlotLimiter } from "#flow/limit/limiter.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { componentOf, decisionOf } from "../../kit/sluice/flow.ts";

test("slots that are held together count together, and are all released", () => {
  const undone: string[] = [];
  const limiter = (component: Component): SlotLimiter => ({
    component,
    take: () => assert.fail(),
    undo: ({ id }: Grant) => void undone.push(id),
    end: () => assert.fail(),
    decide: () => assert.fail(),
  });
  const components = ["root.0", "root.1", "root.2"].map((componentId) =>
    componentOf({ componentId }),
  );
  const limiters = new Map(components.map((component) => [component, limiter(component)]));
  const decisions = components.map((component, at) =>
    decisionOf(component, { grantId: at === 2 ? undefined : `slot ${at}` }),
  );
  const [first, second] = decisions.map((decision) => heldSlots([decision], limiters, NO_OBSERVER));
  const both = heldSlots(decisions, limiters, NO_OBSERVER);
  assert.ok(first !== undefined && second !== undefined && both !== undefined);
  assert.equal(both.size, first.size + second.size);
  assert.ok(first.size > 0);
  both.release();
  assert.deepEqual(undone.sort(), ["slot 0", "slot 1"]);
  assert.equal(heldSlots(decisions.slice(2), limiters, NO_OBSERVER), undefined);
});
