// Schedulers behind a real Envoy: a request waits while its check does, until the end of another request (which Envoy's access
// log reports), or a token, lets it pass.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy } from "../kit/servers/envoy.ts";
import { realClock } from "../kit/sluice/port.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { type Standalone, standalone, standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { clientOf, limitsFarAway } from "./limits.ts";
import { startTroubledService } from "./troubled-service.ts";

/** Two workloads by a header: gold has three times the weight of silver. */
const SCHEDULER = `
          scheduler:
            workloads:
              - name: gold
                label_matcher: {match_labels: {tier: gold}}
                parameters: {priority: 3}
              - name: silver
                label_matcher: {match_labels: {tier: silver}}
                parameters: {priority: 1}`;
const SELECTORS = "selectors: [{control_point: ingress, agent_group: default}]";

const policy = (component: string) => `
circuit:
  evaluation_interval: 1s
  components:
    - flow_control:${component}
resources:
  flow_control:
    classifiers:
      - selectors: [{control_point: ingress, agent_group: default}]
        rules:
          tier: {extractor: {from: request.http.headers.x-tier}}
`;

/** So many requests in flight, whose slots only their ends return. */
const inFlight = (most: number) =>
  policy(`
        concurrency_scheduler:
          in_ports: {max_concurrency: {constant_signal: {value: ${most}}}}
          concurrency_limiter: {max_inflight_duration: 3600s}${SCHEDULER}
          ${SELECTORS}`);

const aSecond = (tokens: number) =>
  policy(`
        quota_scheduler:
          in_ports:
            bucket_capacity: {constant_signal: {value: 5}}
            fill_amount: {constant_signal: {value: ${tokens}}}
          rate_limiter: {interval: 1s}${SCHEDULER}
          ${SELECTORS}`);

const share = (multiplier: number) =>
  policy(`
        load_scheduler:
          in_ports: {load_multiplier: {constant_signal: {value: ${multiplier}}}}
          parameters:
            ${SELECTORS}`);

const FILE = "queue.yaml";

async function house(t: TestContext, text: string, timeout = "300s") {
  return houseOf(t, await standaloneProcess(t, { policies: { [FILE]: text } }), timeout);
}

async function houseOf(t: TestContext, { address, policies }: Standalone, timeout = "300s") {
  const service = await startTroubledService(t);
  const envoy = await startEnvoy(t, {
    agent: address,
    service: service.port,
    edit(bootstrap) {
      limitsFarAway(bootstrap);
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], timeout);
    },
  });
  const of = async (name: string) => (await counted(address, name, "policy_name"))["queue"] ?? 0;
  await until(
    "the policy is in force",
    async () => (await of("sluice_circuit_decisions_total")) > 0,
  );
  const slots = () => counted(address, "sluice_reported_slots_total", "result");
  return {
    service,
    envoy,
    ask: clientOf(t, envoy, 4),
    edit: (other: string) => writeFileSync(join(policies, FILE), other),
    waiting: (flows: number) =>
      until(`${flows} wait`, async () => (await of("sluice_scheduler_waiting_flows")) === flows),
    returned: (wanted: number) =>
      until(`${wanted} slots returned`, async () => (await slots())["returned"] === wanted),
  };
}

test("a request waits until another one ends, the more important one first", async (t) => {
  const { service, ask, waiting, returned } = await house(t, inFlight(1));
  service.hold(true);
  const first = ask("/ok", "first");
  await service.begins("first");
  const silver = ask("/ok", "silver", { tier: "silver" });
  await waiting(1);
  const later = ask("/ok", "later", { tier: "silver" });
  await waiting(2);
  const gold = ask("/ok", "gold", { tier: "gold" });
  await waiting(3);
  assert.deepEqual([...service.arrived], ["first"]);
  service.hold(false);
  for (const each of [first, silver, later, gold]) assert.equal((await each).status, 200);
  // Whoever waits for the next slot keeps its turn.
  assert.deepEqual([...service.arrived], ["first", "silver", "gold", "later"]);
  assert.equal(service.most, 1);
  await returned(4);
  await waiting(0);
});

test("a client that leaves gives up its place in the queue", async (t) => {
  const { service, ask, waiting, returned } = await house(t, inFlight(1));
  service.hold(true);
  const first = ask("/ok", "first");
  await service.begins("first");
  const leaving = Promise.withResolvers<void>();
  const gone = ask("/ok", "gone", { leave: leaving.promise });
  await waiting(1);
  const next = ask("/ok", "next");
  await waiting(2);
  leaving.resolve();
  assert.equal((await gone).status, 0);
  await waiting(1);
  service.hold(false);
  assert.deepEqual([(await first).status, (await next).status], [200, 200]);
  assert.deepEqual([...service.arrived], ["first", "next"]);
  await returned(2);
  await waiting(0);
});

test("a request waits as long as Envoy's timeout for checks, and is then refused by a decision", async (t) => {
  const { service, envoy, ask, waiting, returned } = await house(t, inFlight(1), "1s");
  service.hold(true);
  const first = ask("/ok", "first");
  await service.begins("first");
  // Where the machine is busy, the decision may come too late; Envoy then refuses the request itself.
  await until("a decision comes in time", async () => {
    const before = envoy.log().length;
    assert.equal((await ask("/ok", "late")).status, 503);
    await until("it is logged", () => envoy.log().length > before);
    return String(envoy.log()[before]?.["details"]).startsWith("ext_authz_denied");
  });
  assert.ok(!service.arrived.has("late"));
  await waiting(0);
  service.hold(false);
  assert.equal((await first).status, 200);
  await returned(1);
  assert.equal((await ask("/ok", "next")).status, 200, "what gave up waiting holds no slot");
});

/** Requests of each workload that are always under way. */
const LANES = 30;
/** Requests that pass before shares are counted: the first ones find no queue. */
const WARM_UP = 60;
const COUNTED = 600;
const SLOTS = 10;

for (const [kind, text] of [
  ["concurrency", inFlight(SLOTS)],
  ["quota", aSecond(150)],
] as const) {
  test(`six times what a ${kind} scheduler lets pass: everything waits, in the shares that the policy names`, async (t) => {
    const { service, envoy, ask, waiting, returned } = await house(t, text);
    const passed = { gold: 0, silver: 0 };
    let all = 0;
    const lane = async (tier: "gold" | "silver", at: number) => {
      for (let round = 0; all < WARM_UP + COUNTED; round++) {
        const { status } = await ask("/ok?ms=5", `${tier} ${at} ${round}`, { tier });
        assert.equal(status, 200);
        all += 1;
        if (all > WARM_UP && all <= WARM_UP + COUNTED) passed[tier] += 1;
      }
    };
    const lanes = Array.from({ length: LANES }, (_, at) => [lane("gold", at), lane("silver", at)]);
    await Promise.all(lanes.flat());
    const gold = passed.gold / COUNTED;
    t.diagnostic(`gold ${gold.toFixed(3)}, wanted 0.75; at most ${service.most} at once`);
    assert.ok(Math.abs(gold / 0.75 - 1) < 0.1, JSON.stringify(passed));
    await waiting(0);
    assert.equal(await envoy.stat("http.ingress.ext_authz.sluice.error"), 0);
    if (kind !== "concurrency") return;
    assert.ok(service.most <= SLOTS, `${service.most} at once`);
    await returned(all);
  });
}

/** A load scheduler measures for half a minute before it refuses anything. */
const FASTER = 20;
const fastClock: Clock = {
  now: () => realClock.now() * FASTER,
  wall: () => realClock.wall(),
  wallOf: () => realClock.wall(),
  alarm: (ms, ring) => realClock.alarm(ms / FASTER, ring),
};

test("a load scheduler refuses what its share does not allow, and an edit opens it again", async (t) => {
  const agent = await standalone(t, { policies: { [FILE]: share(0) }, clock: fastClock });
  const { service, ask, edit, waiting } = await houseOf(t, agent);
  let asked = 0;
  const becomes = (status: number) =>
    until(`the answer is ${status}`, async () => {
      asked += 1;
      const answer = await ask("/ok", `${status} ${asked}`);
      if (answer.status === status) return true;
      await sleep(20);
      return false;
    });
  // It lets everything pass until it has measured the rate of requests.
  await becomes(503);
  assert.ok(!service.arrived.has(`503 ${asked}`));
  edit(share(1));
  await becomes(200);
  await waiting(0);
});
