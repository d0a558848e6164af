// Envoy's gRPC access log ends flows, however their requests end: each slot of a concurrency limiter returns, and the service
// never works on more requests than the limit allows. Nothing else frees a slot here within an hour.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy } from "../kit/servers/envoy.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { clientOf, limitsFarAway, type Reply, ROUTE } from "./limits.ts";
import { startTroubledService } from "./troubled-service.ts";

const LIMIT = 50;
const POLICIES = { "slots.yaml": slotsPolicy("ingress", LIMIT) };

test("a slot returns however its request ends", async (t) => {
  const { address, child } = await standaloneProcess(t, { policies: POLICIES });
  const service = await startTroubledService(t);
  const envoy = await startEnvoy(t, {
    agent: address,
    service: service.port,
    edit(bootstrap) {
      limitsFarAway(bootstrap);
      // Entries of refused requests too.
      bootstrap.remove([...AT.accessLog, 1, "filter"]);
      bootstrap.set([...ROUTE, "timeout"], "0.5s");
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "1s");
      // The agent is stopped for a moment, but stays in use.
      bootstrap.remove(["static_resources", "clusters", 0, "health_checks"]);
    },
  });
  const ask = clientOf(t, envoy, 1);
  const results = () => counted(address, "sluice_access_log_records_total", "result");
  const slots = () => counted(address, "sluice_reported_slots_total", "result");
  const freed = (what: string) =>
    until(`${what}: the slot is free`, async () => (await slotsHeld(address, "ingress")) === 0);
  let returned = 0;
  const ends = async (what: string, wanted: Reply, path: string, leave?: Promise<void>) => {
    const before = envoy.log().length;
    assert.deepEqual(await ask(path, what, { leave }), wanted, what);
    returned += 1;
    await until(`${what} is reported`, async () => (await slots())["returned"] === returned);
    await freed(what);
    await until(`${what} is logged`, () => envoy.log().length > before);
    const { status, flags, details } = envoy.log().at(-1) ?? {};
    t.diagnostic(`${what}: status ${status}, flags ${flags}, ${details}`);
  };

  await ends("served", { status: 200, whole: true }, "/ok?ms=5");
  await ends("reset by the service", { status: 503, whole: true }, "/reset?ms=5");
  await ends("cut off by the service", { status: 200, whole: false }, "/cut?ms=5");
  await ends("given up by Envoy", { status: 504, whole: true }, "/hang");
  const left = service.leaving("left by the client");
  await ends("left by the client", { status: 0, whole: false }, "/hang", left);
  assert.deepEqual(await results(), { taken: returned });

  // Denied requests hold no slot; their records have a decision all the same.
  service.hold(true);
  const full = Array.from({ length: LIMIT }, (_, at) => ask("/ok", `full ${at}`));
  await until("all slots are taken", () => service.inFlight === LIMIT);
  assert.equal((await ask("/ok", "denied")).status, 429);
  await until("its record", async () => (await results())["taken"] === returned + 1);
  service.hold(false);
  await Promise.all(full);
  returned += LIMIT;
  await until("all are reported", async () => (await slots())["returned"] === returned);

  // Without a decision there is no slot: the agent takes it back when Envoy cancels the check.
  await child.freeze();
  const cancelled = sleep(50);
  assert.equal((await ask("/ok", "cancelled", { leave: cancelled })).status, 0);
  assert.equal((await ask("/ok", "too late")).status, 503);
  child.kill("SIGCONT");
  await until("both records", async () => (await results())["no_decision"] === 2);
  await freed("no decision");
  assert.ok(!service.arrived.has("cancelled") && !service.arrived.has("too late"));
  assert.deepEqual(await slots(), { returned });

  // Envoy's streams are open, and do not keep the agent from ending.
  child.kill("SIGTERM");
  assert.equal(await child.ended, 0);
  assert.doesNotMatch(child.out() + child.err(), /grace time/);
});

test("slots return soon after the responses: how soon is printed", async (t) => {
  const { address } = await standaloneProcess(t, { policies: POLICIES });
  const service = await startTroubledService(t);
  const envoy = await startEnvoy(t, { agent: address, service: service.port, edit: limitsFarAway });
  const ask = clientOf(t, envoy, 1);
  const lags: number[] = [];
  while (lags.length < 200) {
    assert.equal((await ask("/ok", `request ${lags.length}`)).status, 200);
    const answered = performance.now();
    let held = 1;
    while (held > 0) held = await slotsHeld(address, "ingress");
    lags.push(performance.now() - answered);
  }
  lags.sort((a, b) => a - b);
  const [median = 0, p99 = 0] = [lags[100], lags[198]];
  t.diagnostic(`slots return after ${median.toFixed(1)} ms (median), ${p99.toFixed(1)} ms (p99)`);
});

const REQUESTS = 2_000;
/** Time for what depends on the speed of the machine. */
const SLOW_MS = 180_000;
/** The host address of the agent, so that no other process takes its port during the restart. */
const HOST = "127.0.0.4";

/** Paths of ten requests. */
const WAYS = ["/ok", "/ok", "/reset", "/ok", "/cut", "/ok", "/hang", "/ok", "/ok", "/ok"];

test("2 000 requests at once, under a limit of 50, with a restart of the agent", async (t) => {
  const start = (addr: string) =>
    standaloneProcess(t, { policies: POLICIES, env: { SVC_AGENT_SERVER_LISTENER_ADDR: addr } });
  const agent = await start(`${HOST}:0`);
  const { address } = agent;
  const service = await startTroubledService(t);
  const envoy = await startEnvoy(t, { agent: address, service: service.port, edit: limitsFarAway });
  const ask = clientOf(t, envoy, 20);
  const begun = performance.now();
  let served = 0;
  let asked = 0;
  const run = { on: true };
  t.after(() => {
    run.on = false;
  });
  /** Asks again until the request has reached the service. */
  const untilServed = async (at: number) => {
    const id = `request ${at}`;
    const way = WAYS[at % WAYS.length] ?? "/ok";
    const leave = way === "/hang" ? service.leaving(id) : undefined;
    while (run.on) {
      asked += 1;
      const { status, whole } = await ask(`${way}?ms=${10 + (at % 40)}`, id, { leave });
      if (status === 200 && whole) served += 1;
      if (service.arrived.has(id)) return;
      assert.ok(status === 429 || status === 503, `${id}: ${status}`);
      await sleep(500 + ((at * 7) % 500));
    }
  };
  const all = Promise.all(Array.from({ length: REQUESTS }, (_, at) => untilServed(at)));

  const quarter = () => service.arrived.size >= REQUESTS / 4;
  await until("a quarter has reached the service", quarter, SLOW_MS);
  // All that the service works on is still there when the next agent starts, whose counts are empty.
  service.hold(true);
  await until("the service is full", () => service.inFlight === LIMIT && service.most >= LIMIT);
  assert.equal(service.most, LIMIT);
  agent.child.kill("SIGKILL");
  await agent.child.ended;
  const old = service.present();
  const again = await start(address);
  assert.equal(again.address, address);
  await until("the next agent fills it again", () => service.inFlight === old() + LIMIT, SLOW_MS);
  assert.equal(old(), LIMIT);
  assert.ok(service.most <= 2 * LIMIT, `${service.most} at once after the restart`);
  service.hold(false);
  await until("the flows from before the restart have ended", () => old() === 0);
  service.forget();
  await all;
  const seconds = (performance.now() - begun) / 1_000;
  assert.ok(service.most <= LIMIT, `${service.most} at once`);
  assert.equal(service.arrived.size, REQUESTS);
  const free = async () => (await slotsHeld(address, "ingress")) === 0;
  await until("all slots are back", free);
  const whole = WAYS.filter((way) => way === "/ok").length / WAYS.length;
  assert.equal(served, REQUESTS * whole);
  t.diagnostic(
    `${Math.round(served / seconds)} answers a second of ${Math.round(asked / seconds)} requests`,
  );
  t.diagnostic(JSON.stringify(await counted(address, "sluice_reported_slots_total", "result")));
  t.diagnostic(JSON.stringify(await counted(address, "sluice_access_log_records_total", "result")));
});
