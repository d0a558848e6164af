// True if an operator sees that flows which take concurrency slots are never ended.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LostEnds } from "#agent/warnings/lost-ends.ts";
import { Scope } from "#base/scope.ts";
import type { SlotRef } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { aComponent, aDecision, aVerdict } from "../../telemetry/kit.ts";

const MINUTE = 60_000;

function setup() {
  const clock = fakeClock();
  const log = memoryLog();
  const root = new StatusNode(clock);
  const scope = new Scope();
  const lostEnds = new LostEnds({ clock, log, scope, health: { root } } as never);
  const passedOn: (readonly SlotRef[])[] = [];
  const controller: Pick<FlowController, "end"> = {
    end(slots) {
      passedOn.push(slots);
      return [];
    },
  };
  lostEnds.watch(controller);
  const slotOf = (componentId: string): SlotRef => {
    const { policyName, policyHash } = aComponent();
    return { policyName, policyHash, componentId, label: "", requestId: "id", tokens: 1 };
  };
  const holding = (componentId: string) => {
    const component = aComponent({ componentId });
    const detail = { ...aDecision().detail, requestId: "id" };
    const held = { size: 1, release: () => undefined };
    return aVerdict({
      decisions: [aDecision({ grantId: "rate" }), aDecision({ component, grantId: "id", detail })],
      held,
    });
  };
  const repeat = (count: number, act: () => void) => {
    for (let at = 0; at < count; at++) act();
  };
  return {
    clock,
    scope,
    passedOn,
    warnings: () => log.lines.map(({ level, fields }) => ({ level, ...fields })),
    status: () => root.at("system", "flow_ends").view().status?.error?.message,
    begin: (count: number, id = "root.1") =>
      repeat(count, () => lostEnds.decided(undefined, holding(id))),
    end: (count: number, id = "root.1") => repeat(count, () => controller.end([slotOf(id)])),
    withoutSlots: () => lostEnds.decided(undefined, aVerdict({ decisions: [aDecision()] })),
  };
}

test("a limiter most of whose slots are never given back is named once in the log, and in the status until that ends", async () => {
  const { clock, begin, end, warnings, status, scope } = setup();
  assert.equal(status(), undefined);
  begin(20);
  end(9);
  clock.advance(MINUTE);
  assert.equal(status(), undefined, "flows may end in the next minute");
  for (let more = 0; more < 3; more++) {
    begin(20);
    clock.advance(MINUTE);
    const wanted = { level: "warn", policy: "p", component: "root.1", taken: 20, returned: 9 };
    assert.deepEqual(warnings(), [wanted]);
    assert.match(
      status() ?? "",
      /^most concurrency slots were not .*: policy p, component root\.1$/,
    );
  }
  end(10);
  clock.advance(MINUTE);
  assert.equal(status(), undefined, "half of them were");
  await scope.close("drain");
  assert.equal(clock.alarms, 0);
});

test("a limiter recovers with a few flows, too, and one without flows is forgotten", () => {
  const { clock, begin, end, status } = setup();
  const lose = () => {
    begin(20);
    for (let minute = 0; minute < 2; minute++) clock.advance(MINUTE);
    assert.match(status() ?? "", /component root\.1$/);
  };
  lose();
  begin(1);
  end(1);
  for (let minute = 0; minute < 2; minute++) clock.advance(MINUTE);
  assert.equal(status(), undefined);
  lose();
  clock.advance(MINUTE);
  assert.equal(status(), undefined, "it takes no more slots");
});

test("flows that end a minute later, few flows, and flows without slots are no reason to warn", () => {
  const { clock, begin, end, withoutSlots, warnings, passedOn } = setup();
  for (let minute = 0; minute < 5; minute++) {
    begin(100);
    end(minute === 0 ? 0 : 100);
    begin(9, "root.2");
    for (let flow = 0; flow < 100; flow++) withoutSlots();
    clock.advance(MINUTE);
  }
  assert.deepEqual(warnings(), []);
  assert.equal(passedOn.length, 400, "ends reach the controller");
});
