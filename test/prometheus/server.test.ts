// Circuits that query a real Prometheus: while it runs, hangs, is frozen and is killed, other signals continue with
// every tick. Ticks and delays use a clock that the test controls, so nothing waits for real time.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Circuit } from "#circuit/circuit.ts";
import type { CircuitPlan, Leaf } from "#circuit/plan.ts";
import { PrometheusClient } from "#prometheus/client.ts";
import { QueryRunner } from "#prometheus/query-runner.ts";
import { fakeClock } from "../kit/clock.ts";
import { type Prometheus, startPrometheus } from "../kit/servers/prometheus.ts";
import { until } from "../kit/until.ts";
import { type Answering, caller, fakeServer, send, vectorOf } from "./kit.ts";

const INTERVAL_MS = 1_000;

function asking(id: string, query: string, signal: number): Leaf {
  const config = { query_string: query, evaluation_interval: INTERVAL_MS };
  return { id, kind: "promql", config, inputs: {}, outputs: { output: signal }, identity: id };
}

const COUNTING: Leaf = {
  id: "count",
  kind: "integrator",
  config: { initial_value: 0, evaluation_interval: undefined },
  inputs: { input: [{ kind: "constant", value: 1 }] },
  outputs: { output: 0 },
  identity: "count",
};

/** A circuit that counts its ticks and sends these queries; the test ticks it. */
function circuit(t: TestContext, address: string, ...queries: readonly string[]) {
  const clock = fakeClock();
  const http = caller(t, {}, { clock });
  const measure = new PrometheusClient({ settings: { address, labels: [] }, http });
  const settings = { blocking_execution: false, worker_limit: 0 };
  const runner = new QueryRunner({ engine: measure, clock, chance: () => 0.5, settings });
  t.after(() => runner.close());
  const leaves = [COUNTING, ...queries.map((query, at) => asking(`q${at}`, query, at + 1))];
  const plan: CircuitPlan = {
    policyName: "p",
    policyHash: "h",
    intervalMs: INTERVAL_MS,
    leaves,
    signals: leaves.map(({ id }) => ({ circuit: "root", name: id })),
    order: leaves.map((_, at) => at),
  };
  const why = new Map<string, string>();
  const fail = (...given: unknown[]) => assert.fail(JSON.stringify(given));
  const loop: Circuit = new Circuit(
    plan,
    {
      ask: (ask) =>
        runner.ask("p", ask.componentId, ask, (answer) => {
          if (answer.kind === "failed") why.set(ask.componentId, answer.why);
          loop.answer(ask.componentId, answer);
        }),
      decide: fail,
      alert: fail,
      fault: fail,
      ignoredOverride: fail,
    },
    undefined,
  );
  return {
    why,
    /**
     * One tick and everything until the next one is due: the given number of answers, then a second in small
     * steps, between which retries can run. Returns the readings, the tick count first.
     */
    tick: async (answered: number): Promise<readonly number[]> => {
      loop.tick(Date.now());
      await until("the answers", () => runner.waiting <= queries.length - answered);
      await until("the next tick is due", () => {
        clock.advance(INTERVAL_MS / 20);
        return runner.waiting === 0;
      });
      return plan.signals.map((_, at) => loop.reading(at));
    },
  };
}

async function measured(t: TestContext): Promise<Prometheus> {
  const target = await fakeServer(t, (_, reply) => reply.end("demo_value 42\n"));
  const server = await startPrometheus(t, {
    scrapeTargets: [`127.0.0.1:${target.port}`],
    scrapeInterval: "100ms",
  });
  const asked = new PrometheusClient({
    settings: { address: server.address, labels: [{ name: "job", value: "test" }] },
    http: caller(t),
  });
  await until("it has scraped", async () => {
    const result = await asked.query("demo_value", Date.now(), new AbortController().signal);
    return result.kind === "vector" && result.samples[0]?.value === 42;
  });
  return server;
}

test("a real Prometheus: every kind of result, refusals, labels", async (t) => {
  const { address } = await measured(t);
  const ask = (query: string, labels: readonly { name: string; value: string }[] = []) =>
    new PrometheusClient({ settings: { address, labels }, http: caller(t) }).query(
      query,
      Date.now(),
      new AbortController().signal,
    );
  assert.deepEqual(await ask("1/0"), { kind: "scalar", value: Infinity });
  assert.deepEqual(await ask("0/0"), { kind: "scalar", value: Number.NaN });
  assert.deepEqual(await ask('"text"'), { kind: "string", value: "text" });
  assert.deepEqual(await ask("demo_value[1m]"), { kind: "matrix", series: 1 });
  assert.deepEqual(await ask("nothing"), { kind: "vector", samples: [] });
  const vector = await ask("sum by (job) (demo_value)");
  assert.ok(vector.kind === "vector");
  assert.deepEqual(
    vector.samples.map(({ labels, value }) => [{ ...labels }, value]),
    [[{ job: "test" }, 42]],
  );
  const other = await ask("demo_value", [{ name: "job", value: "other" }]);
  assert.deepEqual(other, { kind: "vector", samples: [] });
  await assert.rejects(ask("sum(rate("), /answered 400 bad_data: .*parse error/);
  await assert.rejects(ask("demo_value * on() group_left() (up or vector(1))"), /answered 422/);
});

test("a real Prometheus, frozen, thawed and killed: its signals turn invalid, the rest goes on", async (t) => {
  const server = await startPrometheus(t);
  const { tick, why } = circuit(t, server.address, "vector(42)");
  assert.deepEqual(await tick(1), [0, Number.NaN], "no answer before the first");
  assert.deepEqual(await tick(1), [1, 42]);
  await server.freeze();
  assert.deepEqual(await tick(0), [2, 42], "asked before it was known");
  assert.deepEqual(await tick(0), [3, Number.NaN]);
  assert.deepEqual(await tick(0), [4, Number.NaN]);
  assert.match(why.get("q0") ?? "", /no answer before the next evaluation was due/);
  server.thaw();
  await tick(1);
  assert.deepEqual(await tick(1), [6, 42]);
  await server.kill();
  assert.deepEqual(await tick(0), [7, 42]);
  assert.deepEqual(await tick(0), [8, Number.NaN]);
  assert.match(why.get("q0") ?? "", /connection refused/);
});

test("one query that hangs, in one circuit with a good one", async (t) => {
  const server = await startPrometheus(t);
  const relay = await fakeServer(t, ({ body, url }, reply) => {
    const query = new URLSearchParams(body).get("query") ?? "";
    if (query.includes("slow")) return;
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    void fetch(server.address + url, { method: "POST", body, headers }).then(async (answer) =>
      send(reply, answer.status, await answer.text()),
    );
  });
  const { tick, why } = circuit(t, relay.url, "vector(42)", "vector(42) + slow");
  await tick(1);
  for (let count = 1; count <= 5; count++) {
    assert.deepEqual(await tick(1), [count, 42, Number.NaN]);
  }
  assert.match(why.get("q1") ?? "", /no answer before the next evaluation/);
  assert.equal(why.has("q0"), false);
  // Twelve questions, two of them open at a time: what is late is given up and its connection with it.
  await until("late calls are gone", () => relay.open <= 2);
});

test("a server that fails for a while is queried again, with the same time, within the interval", async (t) => {
  const answers: Answering[] = [
    (_, reply) => send(reply, 503, { status: "error", errorType: "timeout", error: "busy" }),
    (_, reply) => void reply.socket?.resetAndDestroy(),
    (_, reply) => send(reply, 200, vectorOf(7)),
  ];
  const clock = fakeClock();
  const server = await fakeServer(t, (heard, reply) => answers.shift()?.(heard, reply));
  const http = caller(t, {}, { clock });
  const measure = new PrometheusClient({ settings: { address: server.url, labels: [] }, http });
  const settings = { blocking_execution: false, worker_limit: 1 };
  const runner = new QueryRunner({ engine: measure, clock, chance: () => 0, settings });
  t.after(() => runner.close());
  const heard: unknown[] = [];
  const ask = { componentId: "a", query: "up", at: 60_000, periodMs: 10_000, byLabel: undefined };
  runner.ask("p", ask.componentId, ask, (answer) => heard.push(answer));
  await until("it is answered", () => {
    clock.advance(10);
    return heard.length === 1;
  });
  assert.deepEqual(heard, [{ kind: "value", value: 7 }]);
  assert.deepEqual(
    server.heard.map(({ body }) => new URLSearchParams(body).get("time")),
    ["60", "60", "60"],
  );
});
