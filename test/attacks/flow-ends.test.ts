// Callers that end flows under another name than the one under which the agent gave the slot out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { slotsPolicy } from "../kit/attack/slots.ts";
import { begin, endFlow } from "../kit/sluice/check.ts";
import { standalone } from "../kit/sluice/standalone.ts";

test("the right id does not end a slot of a component that the present policy does not have", async (t) => {
  const { address } = await standalone(t, { policies: { "slots.yaml": slotsPolicy("here", 1) } });
  const { slots } = await begin(address, "here");
  const [slot] = slots;
  assert.ok(slot);
  const end = (as: Partial<typeof slot>) => endFlow(address, "here", [{ ...slot, ...as }]);
  assert.deepEqual(await end({ component_id: "root.99" }), [false]);
  assert.equal((await begin(address, "here")).accepted, false, "the slot is still taken");
  // An older version of the policy may have numbered its components differently.
  assert.deepEqual(await end({ component_id: "root.99", policy_hash: "older" }), [true]);
  assert.equal((await begin(address, "here")).accepted, true);
});
