// Estimates at the ports of agents: each settles those of the flows that it has checked, tells callers which it does not
// settle and why, and tells operators when a policy has too many flows to settle.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fullReservations } from "#agent/warnings/settlement.ts";
import { Scope } from "#base/scope.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { fakeClock } from "../../kit/clock.ts";
import { call } from "../../kit/sluice/check.ts";
import { componentOf } from "../../kit/sluice/flow.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { counted } from "../../kit/sluice/scrape.ts";
import { standaloneProcess } from "../../kit/sluice/standalone.ts";

const POLICY = `
circuit:
  components:
    - flow_control:
        rate_limiter:
          in_ports:
            bucket_capacity: { constant_signal: { value: 100 } }
            fill_amount: { constant_signal: { value: 0 } }
          selectors: [{ control_point: ingress }]
          parameters: { interval: 1s, settlement: {} }
          request_parameters: { tokens_label_key: estimate }
`;

test("a flow that ends at another agent than the one that checked it is charged its estimate, and its caller is told", async (t) => {
  const [one, other] = await Promise.all(
    [1, 2].map(() => standaloneProcess(t, { policies: { "cost.yaml": POLICY } })),
  );
  assert.ok(one !== undefined && other !== undefined);
  const check = async ({ address }: { readonly address: string }, estimate: string) => {
    const flow = { control_point: "ingress", labels: { estimate } };
    return JSON.parse((await call(address, "POST", "/v1/flowcontrol/check", flow)).body);
  };
  const left = async (agent: typeof one) => {
    const [decision] = (await check(agent, "0")).limiter_decisions;
    return decision.rate_limiter_info.tokens_info.remaining;
  };
  const end = async ({ address }: typeof one, reservation_id: string) => {
    const { status, body } = await call(address, "POST", "/v1/flowcontrol/flowend", {
      reservation_id,
      cost: 5,
    });
    assert.equal(status, 200);
    return JSON.parse(body);
  };
  const results = ({ address }: typeof one) =>
    counted(address, "sluice_flow_end_settlements_total", "result");

  const { reservation_id } = await check(one, "30");
  const refused = await end(other, reservation_id);
  assert.equal(refused.settled, false);
  assert.match(refused.settlement_error, /got one of another agent, .* the agent that checked it$/);
  assert.deepEqual(await results(other), { elsewhere: 1 });
  assert.equal(await left(other), 100);
  assert.equal(await left(one), 70);

  assert.deepEqual(await end(one, reservation_id), { token_return_statuses: [], settled: true });
  assert.equal(await left(one), 95);
  const again = await end(one, reservation_id);
  assert.match(
    again.settlement_error,
    /it was settled before, it expired, or no check created it$/,
  );
  assert.equal((await end(one, "garbage")).settlement_error, again.settlement_error);
  assert.deepEqual(await results(one), { settled: 1, unknown: 2 });
});

test("policies with too many flows to settle are named in the status, and twice in the log", async () => {
  const clock = fakeClock();
  const log = memoryLog();
  const scope = new Scope();
  const root = new StatusNode(clock);
  const status = () => root.at("system", "settlement").view().status;
  const listener = fullReservations({ clock, log, scope, health: { root } } as never);
  assert.equal(status()?.error, null);
  const flow = (policyName: string, how: "no_room" | "committed") =>
    listener.settled?.(componentOf({ policyName }), how, 0);
  flow("a", "committed");
  assert.equal(log.lines.length, 0);
  for (let at = 0; at < 3; at++) flow("a", "no_room");
  flow("b", "no_room");
  assert.match(status()?.error?.message ?? "", /policy a: too many .*; policy b: too many/);
  const lines = () => log.lines.map(({ level, fields }) => [level, { ...fields }]);
  assert.deepEqual(lines(), [
    ["warn", { policy: "a" }],
    ["warn", { policy: "b" }],
  ]);
  clock.advance(9_999);
  flow("b", "no_room");
  clock.advance(1);
  assert.deepEqual(lines().slice(2), [["info", { policy: "a", estimates: 3 }]]);
  assert.match(status()?.error?.message ?? "", /^policy b/);
  clock.advance(10_000);
  assert.equal(status()?.error, null);
  flow("b", "no_room");
  await scope.close("drain");
  assert.equal(clock.alarms, 0);
});
