// An agent that gets several times as many checks as it can judge, with policies whose selectors and classifiers take
// most of the time: what is judged by priority, how soon everything is judged again, and the latency of important checks
// from another process, because those of the load generator itself wait in its own event loop as well. Beside it, the
// same without shedding. `node test/bench/overload.ts [--times 3] [--seconds 8]`

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { costlyPolicy, type LoadResult, OverloadCaller } from "../kit/faults/overload.ts";
import { printRow } from "./measure/report.ts";
import { fetchBody, freeTarget, pinLoad } from "./servers/processes.ts";
import { startSluice } from "./servers/sluice.ts";

const { values } = parseArgs({
  options: {
    times: { type: "string", default: "3" },
    seconds: { type: "string", default: "8" },
  },
});
const times = Number(values.times);
const forMs = Number(values.seconds) * 1_000;
/** Set in the other process: the address at which it asks. */
const probed = process.env["SLUICE_BENCH_PROBED"];

/** The parts of the load in which the share that is shed settles, and in which it has settled. */
const SETTLING = 0.4;
const PERIODS = [
  ["while it settles", 0, SETTLING],
  ["settled", SETTLING, 1],
] as const;
/** A check costs most of a millisecond, so that the load generator has little to do beside the agent. */
const PATTERNS = 480;
/** Callers that keep the agent busy all the time, and checks after which its code is optimised. */
const CALLERS = 32;
const WARM_UP = 6_000;
const TO_MEASURE = 3_000;
/** Important checks that the other process sends. */
const PROBES_PER_SECOND = 50;
/** Share of what is possible that is sent after the overload. */
const AFTERWARDS = 0.3;

interface Sums {
  judged: number;
  shed: number;
  latencies: number[];
}

function ofTier(result: LoadResult, tier: string, from: number, to: number): Sums {
  const sums: Sums = { judged: 0, shed: 0, latencies: [] };
  for (const [name, { order, latencies }] of result.answers) {
    if (!name.endsWith(tier)) continue;
    const range = [Math.floor(order.length * from), Math.floor(order.length * to)] as const;
    for (const shed of order.slice(...range)) {
      if (shed) sums.shed++;
      else sums.judged++;
    }
    sums.latencies.push(...latencies.slice(...range));
  }
  sums.latencies.sort((a, b) => a - b);
  return sums;
}

function at(sorted: readonly number[], quantile: number): string {
  return `${Math.round(sorted[Math.floor(sorted.length * quantile)] ?? 0)} ms`;
}

async function run(enabled: boolean): Promise<void> {
  const policies = mkdtempSync(join(tmpdir(), "sluice-overload-"));
  writeFileSync(join(policies, "costly.yaml"), costlyPolicy(PATTERNS));
  const target = await freeTarget();
  const env = {
    SVC_AGENT_FLOW_CONTROL_OVERLOAD_ENABLED: String(enabled),
    SVC_AGENT_FLOW_CONTROL_OVERLOAD_MAX_DELAY: "50ms",
  };
  const sluice = await startSluice({ target, policies, env });
  // The limits of the policy come with its first tick.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const caller = new OverloadCaller(target);
  const line = (what: string, result: string) =>
    printRow(`${enabled ? "shedding" : "off"}: ${what}`, "", result);
  try {
    await caller.capacity(CALLERS, WARM_UP);
    const computed = sluice.cpu();
    const possible = await caller.capacity(CALLERS, TO_MEASURE);
    const cost = Math.round(((sluice.cpu() - computed) / TO_MEASURE) * 1e6);
    const share = Math.round(possible * cost * 1e-4);
    line(
      "checks a second that are possible",
      `${Math.round(possible)}, ${cost} µs each, ${share} % of a processor`,
    );
    const resident = sluice.resident();
    const began = sluice.cpu();
    const ownTime = process.cpuUsage();
    const probing = probeFrom(target);
    const result = await caller.send(possible * times, (_, ms) => ms > forMs);
    const ended = performance.now();
    const { user, system } = process.cpuUsage(ownTime);
    const probes = await probing;
    line(`sent at ${times} times that`, `${result.sent}, ${result.failed.length} failed`);
    const took = `${(sluice.cpu() - began).toFixed(1)} s`;
    line("processor time", `${took}, load generator ${((user + system) / 1e6).toFixed(1)} s`);
    // Checks that are sent late belong to the generator's queue, and not to the agent's.
    line("sent late by", `p50 ${at(result.late, 0.5)}, p99 ${at(result.late, 0.99)}`);
    for (const tier of ["gold", "tin"]) {
      for (const [when, from, to] of PERIODS) {
        const { judged, shed } = ofTier(result, tier, from, to);
        line(`${tier}, ${when}`, `${((100 * judged) / (judged + shed)).toFixed(1)} % judged`);
      }
    }
    for (const what of ["gold", "/healthz"] as const) {
      const latencies = probes[what];
      for (const [when, from, to] of PERIODS) {
        const part = latencies.slice(latencies.length * from, latencies.length * to);
        part.sort((a, b) => a - b);
        line(
          `${what} from another process, ${when}`,
          `p50 ${at(part, 0.5)}, p99 ${at(part, 0.99)}`,
        );
      }
    }
    const more = (sluice.resident() - resident) / (1 << 20);
    line("resident memory", `${more.toFixed(0)} MB more than before`);
    for (;;) {
      const later = await caller.send(possible * AFTERWARDS, (_, ms) => ms > 100);
      const all = [...later.answers.values()];
      if (all.every(({ shed }) => shed === 0)) break;
    }
    const recovery = performance.now() - ended - 100;
    line("all judged again after", `${Math.max(0, Math.round(recovery))} ms at most`);
  } finally {
    caller.close();
    await sluice.stop();
    rmSync(policies, { recursive: true });
  }
}

/** Latencies in the order of the answers, ms. */
interface Probes {
  readonly gold: number[];
  readonly "/healthz": number[];
}

/** Asks for as long as the load lasts, in another process. */
async function probeFrom(target: string): Promise<Probes> {
  const env = { ...process.env, SLUICE_BENCH_PROBED: target };
  const child = fork(import.meta.filename, process.argv.slice(2), { env });
  const [probes] = await once(child, "message");
  return probes as Probes;
}

async function probe(target: string): Promise<Probes> {
  const caller = new OverloadCaller(target, 1);
  const health: number[] = [];
  const began = performance.now();
  const asking = (async () => {
    while (performance.now() - began < forMs) {
      const asked = performance.now();
      await fetchBody(target, "/healthz");
      health.push(performance.now() - asked);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const { answers } = await caller.send(PROBES_PER_SECOND, (_, ms) => ms > forMs, true);
  await asking;
  caller.close();
  return { gold: [...answers.values()].flatMap(({ latencies }) => latencies), "/healthz": health };
}

if (probed === undefined) {
  pinLoad();
  await run(true);
  await run(false);
} else {
  process.send?.(await probe(probed));
  process.disconnect?.();
}
