// Compares the service model with queueing theory, and tests full queues and caller timeouts.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Simulation } from "#simulate/simulate.ts";
import { run } from "./scenarios.ts";

interface Model {
  readonly duration?: string;
  readonly seed?: number;
  /** Further lines of the service. */
  readonly service: string;
}

function scenario({ duration = "600s", seed = 1, service }: Model): string {
  return `duration: ${duration}\nseed: ${seed}\nservices:\n  - name: s\n    control_point: p\n${service.replaceAll(/^ */gm, "    ")}`;
}

function mean(simulation: Simulation, name: string): number {
  const { values = [] } = simulation.seriesOf(`s.${name}`) ?? {};
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function near(got: number, wanted: number, part: number): void {
  assert.ok(Math.abs(got - wanted) <= wanted * part, `wanted about ${wanted}, got ${got}`);
}

/** Probability that an arrival must wait (Erlang C). */
function erlangC(servers: number, load: number): number {
  let term = 1;
  let sum = 1;
  for (let at = 1; at < servers; at++) {
    term *= load / at;
    sum += term;
  }
  const last = ((term * load) / servers) * (servers / (servers - load));
  return last / (sum + last);
}

describe("a service of the model", () => {
  it("is an M/M/1 queue: utilisation, queue length and percentiles of the time in the system", async () => {
    // λ = 80/s, μ = 100/s: ρ = 0.8, Lq = ρ²/(1-ρ) = 3.2; time in the system is exponential with 1/(μ-λ).
    const simulation = await run(
      scenario({
        duration: "3000s",
        service: "rate: 80\nservice_time: { exponential: 10ms }\nservers: 1\n",
      }),
    );
    near(mean(simulation, "utilisation"), 0.8, 0.02);
    near(mean(simulation, "queued"), 3.2, 0.1);
    const [row] = simulation.rows;
    near(row?.offered ?? 0, 80, 0.01);
    near(row?.p50 ?? 0, 50 * Math.LN2, 0.07);
    near(row?.p95 ?? 0, 50 * Math.log(20), 0.07);
  });

  it("is an M/M/c queue: mean number waiting by Erlang's formula", async () => {
    const simulation = await run(
      scenario({
        duration: "2000s",
        service: "rate: 140\nservice_time: { exponential: 50ms }\nservers: 8\n",
      }),
    );
    const load = 7;
    near(mean(simulation, "utilisation"), load / 8, 0.02);
    near(mean(simulation, "queued"), (erlangC(8, load) * load) / (8 - load), 0.12);
    near(mean(simulation, "in_service"), load, 0.02);
  });

  it("is an M/D/1 queue with constant times: half the queue", async () => {
    const simulation = await run(
      scenario({
        duration: "2000s",
        service: "rate: 80\nservice_time: { constant: 10ms }\nservers: 1\n",
      }),
    );
    near(mean(simulation, "queued"), 1.6, 0.1);
  });

  it("keeps lognormal times at their median and 95th percentile", async () => {
    const simulation = await run(
      scenario({
        service:
          "rate: 50\nservice_time: { lognormal: { median: 20ms, p95: 80ms } }\nservers: 1000\n",
      }),
    );
    near(simulation.rows[0]?.p50 ?? 0, 20, 0.03);
    near(simulation.rows[0]?.p95 ?? 0, 80, 0.03);
  });

  it("lets uniform arrivals come evenly, through changes of their rate", async () => {
    const simulation = await run(
      scenario({
        duration: "20s",
        service:
          "arrivals: uniform\nrate: { steps: [{ at: 0s, value: 10 }, { at: 10s, value: 40 }] }\nservice_time: { constant: 1ms }\nservers: 1\n",
      }),
    );
    const { values = [] } = simulation.seriesOf("s.offered") ?? {};
    assert.ok(values.slice(0, 9).every((value) => Math.abs(value - 10) <= 1));
    assert.ok(values.slice(11).every((value) => Math.abs(value - 40) <= 1));
    assert.equal(simulation.rows[0]?.p50, 1);
  });

  it("follows ramps and waves of the rate at random", async () => {
    const simulation = await run(
      scenario({
        service:
          "rate: { sum: [{ line: [{ at: 0s, value: 0 }, { at: 600s, value: 200 }] }, { sine: { mean: 50, amplitude: 50, period: 60s } }] }\nservice_time: { constant: 1ms }\nservers: 100\n",
      }),
    );
    near(simulation.rows[0]?.offered ?? 0, 150, 0.02);
    const { values = [] } = simulation.seriesOf("s.offered") ?? {};
    // A quarter into the first wave: its crest.
    near(values.slice(10, 20).reduce((a, b) => a + b) / 10, 100, 0.15);
  });

  it("refuses requests beyond its queue, and loses callers that time out", async () => {
    // Twice the capacity: one in service, two waiting.
    const full = await run(
      scenario({
        duration: "100s",
        service: "rate: 200\nservice_time: { constant: 10ms }\nservers: 1\nqueue: 2\n",
      }),
    );
    const [row] = full.rows;
    near(row?.goodput ?? 0, 100, 0.03);
    near(row?.failed ?? 0, 100, 0.05);
    assert.ok((row?.p95 ?? 99) <= 30.001);
    const tired = await run(
      scenario({
        duration: "100s",
        service: "rate: 200\nservice_time: { constant: 10ms }\nservers: 1\ntimeout: 50ms\n",
      }),
    );
    assert.equal(tired.rows[0]?.p95, 50);
    assert.ok((tired.rows[0]?.failed ?? 0) > 90);
    const { values = [] } = tired.seriesOf("s.queued") ?? {};
    assert.ok(Math.max(...values) < 30, "callers that have left no longer wait");
  });

  it("gets retries of failed requests, as many as callers make", async () => {
    const service =
      "rate: 10\nservice_time: { constant: 10s }\nservers: 1\nqueue: 0\nretries: { most: 3, after: 10ms, jitter: 0 }\n";
    const simulation = await run(scenario({ duration: "200s", service }));
    near(simulation.rows[0]?.offered ?? 0, 40, 0.06);
    const none = await run(
      scenario({
        duration: "200s",
        service: `${service.trimEnd().replace("most: 3,", "most: 3, of: [refused],")}\n`,
      }),
    );
    near(none.rows[0]?.offered ?? 0, 10, 0.1);
  });

  it("is slower when the scenario says so", async () => {
    const simulation = await run(
      `duration: 20s\nphases: [{ name: well, until: 10s }, { name: ill, until: 20s }]\nservices:\n  - { name: s, control_point: p, rate: 10, servers: 100, service_time: { constant: 20ms }, slowdown: { steps: [{ at: 0s, value: 1 }, { at: 10s, value: 5 }] } }\n`,
    );
    assert.deepEqual(
      simulation.rows.map(({ phase, p50 }) => [phase, Math.round(p50)]),
      [
        ["well", 20],
        ["ill", 100],
      ],
    );
  });

  it("draws request classes by their shares", async () => {
    const simulation = await run(
      "duration: 300s\nservices:\n  - name: s\n    control_point: p\n    rate: 100\n    servers: 9\n    service_time: { constant: 1ms }\n    mix: [{ share: 1, labels: { tier: gold } }, { share: 3, labels: { tier: silver } }]\n",
    );
    const [all, gold, silver] = simulation.rows;
    near(all?.offered ?? 0, 100, 0.02);
    near(gold?.offered ?? 0, 25, 0.05);
    near(silver?.offered ?? 0, 75, 0.03);
    assert.deepEqual(gold?.labels, { tier: "gold" });
  });

  it("is the same for the same seed, and differs for another", async () => {
    const service = "rate: 50\nservice_time: { exponential: 10ms }\nservers: 1\n";
    const facts = async (seed: number) => {
      const { rows, seriesOf: line } = await run(scenario({ duration: "60s", seed, service }));
      return { rows, values: line("s.latency_p95")?.values };
    };
    assert.deepEqual(await facts(7), await facts(7));
    assert.notDeepEqual(await facts(7), await facts(8));
  });

  it("does not look for requests after the end, where a rate has ended", async () => {
    const rate = "{ steps: [{ at: 0s, value: 200000 }, { at: 0.01s, value: 0 }] }";
    const service = `rate: ${rate}\nservice_time: { constant: 1ms }\nservers: 9\n`;
    const { rows } = await run(scenario({ duration: "2s", service }));
    near((rows[0]?.offered ?? 0) * 2, 2_000, 0.1);
  });
});
