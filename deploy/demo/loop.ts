// `make demo-loop`: a service that slows down under load, behind a real Envoy and Sluice. The same overload comes
// twice: without a policy, and with one that measures the latency and finds the rate that the service can sustain. It
// stops every process that it starts.

import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { prometheus } from "../tools/install.ts";
import { Load, newTally, quantile, type Tally } from "./load.ts";
import { main, print, wholeNumber } from "./processes.ts";
import { SidecarDemo } from "./sidecar.ts";

const ROOT = join(import.meta.dirname, "../..");
const POLICY = "adaptive-rate.yaml";

/** Four requests at once, 40 ms each: 100 per second. The queue holds 100. */
const SERVICE = ["deploy/demo/slow-service.ts", "4", "40", "100"] as const;
const USUAL = 60;
const OVERLOAD = 250;
/** Goodput counts answers within this time: a caller who has waited longer has gone. */
const GOOD_MS = 300;

interface Phase {
  readonly name: string;
  readonly perSecond: number;
  /** Length of the phase, as a part of the sum of all shares. */
  readonly share: number;
}

const PHASES: readonly Phase[] = [
  { name: "before", perSecond: USUAL, share: 5 },
  { name: "overload comes", perSecond: OVERLOAD, share: 9 },
  { name: "overload stays", perSecond: OVERLOAD, share: 11 },
  { name: "after it", perSecond: USUAL, share: 7 },
];
const SHARES = PHASES.reduce((sum, { share }) => sum + share, 0);

const COLUMNS = ["phase", "offered", "goodput", "p95 ms", "refused", "late", "failed"] as const;

function row({ name, share }: Phase, tally: Tally, seconds: number): string {
  const length = (seconds * share) / SHARES;
  const rate = (count: number) => (count / length).toFixed(0);
  const { sent, good, late, refused, failed, latencies } = tally;
  const p95 = quantile(0.95, latencies)?.toFixed(0) ?? "-";
  return line([name, rate(sent), rate(good), p95, rate(refused), rate(late), rate(failed)]);
}

function line(cells: readonly string[]): string {
  return cells.map((cell, at) => (at === 0 ? cell.padEnd(16) : cell.padStart(9))).join("");
}

/** Plays one overload from beginning to end and prints a row for each phase. */
async function play(processes: SidecarDemo, title: string, seconds: number): Promise<void> {
  print(`\n${title}\n${line(COLUMNS)}`);
  const load = new Load(`${processes.url("Envoy")}/`, GOOD_MS);
  try {
    let printed = Promise.resolve();
    for (const phase of PHASES) {
      const tally = newTally();
      const ms = (seconds * 1_000 * phase.share) / SHARES;
      const { answered } = await load.run(phase.perSecond, ms, tally, processes.stop);
      processes.stop.throwIfAborted();
      // Requests that still wait count in the phase in which they were sent.
      printed = printed.then(() => answered).then(() => print(row(phase, tally, seconds)));
    }
    await printed;
  } finally {
    load.close();
  }
}

/** Starts a Prometheus that scrapes Sluice every second and answers the policy's queries instead of Sluice. */
async function startPrometheus(processes: SidecarDemo): Promise<void> {
  const binary = prometheus();
  await processes.mustBeFree("Prometheus");
  const config = join(processes.folder, "prometheus.yaml");
  const target = `127.0.0.1:${processes.port("Sluice")}`;
  writeFileSync(
    config,
    `scrape_configs: [{ job_name: sluice, scrape_interval: 1s, static_configs: [{ targets: ["${target}"] }] }]\n`,
  );
  const storage = join(processes.folder, "prometheus");
  const address = `127.0.0.1:${processes.port("Prometheus")}`;
  await processes.spawn("Prometheus", {
    command: binary,
    args: [
      "--config.file",
      config,
      "--storage.tsdb.path",
      storage,
      "--web.listen-address",
      address,
    ],
  });
  await processes.answers(`${processes.url("Prometheus")}/-/ready`);
}

interface Choice {
  /** Length of one overload from beginning to end. */
  readonly seconds: number;
  /** Run a real Prometheus too. */
  readonly server: boolean;
  readonly policyOnly: boolean;
}

async function demo(
  processes: SidecarDemo,
  { seconds, server, policyOnly }: Choice,
): Promise<void> {
  const policies = join(processes.folder, "policies");
  mkdirSync(policies);
  print(`Starting a service, Sluice, Envoy${server ? " and Prometheus" : ""}.`);
  if (server) await startPrometheus(processes);
  const env = server ? { SVC_CONTROLLER_PROMETHEUS_ADDRESS: processes.url("Prometheus") } : {};
  await processes.start({ policies, service: SERVICE, env });
  print(`The service can answer 100 requests a second, each in 40 ms. ${USUAL} a second arrive,`);
  print(
    `and ${OVERLOAD} during the overload. An answer after more than ${GOOD_MS} ms is too late.`,
  );
  print("All columns but p95 are requests per second.");
  if (!policyOnly) await play(processes, "Without a policy", seconds);
  cpSync(join(ROOT, "deploy/policies-loop", POLICY), join(policies, POLICY));
  // Until the file is found and compiled, and its first decision is in force.
  await sleep(3_000, undefined, { signal: processes.stop });
  await play(processes, `With ${POLICY}`, seconds);
}

await main("demo-loop", async () => {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "32" },
      shift: { type: "string", default: "0" },
      prometheus: { type: "boolean", default: false },
      "policy-only": { type: "boolean", default: false },
    },
  });
  const seconds = wholeNumber("seconds", values.seconds, 8, 600);
  const processes = new SidecarDemo(wholeNumber("shift", values.shift, 0, 50_000));
  await processes.run(() =>
    demo(processes, { seconds, server: values.prometheus, policyOnly: values["policy-only"] }),
  );
});
