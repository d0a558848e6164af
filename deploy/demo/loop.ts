// `make demo-loop`: a service that slows down under load, behind real Envoy and Sluice. The same overload
// comes twice: without a policy, and with one that finds the rate that the service can bear, by the latency
// that it measures. Everything that is started is stopped again.

import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { prometheus } from "../../test/tools/install.ts";
import { Load, newTally, quantile, type Tally } from "./load.ts";
import { main, Stage, say, wholeNumber } from "./stage.ts";

const ROOT = join(import.meta.dirname, "../..");
const POLICY = "adaptive-rate.yaml";

/** 4 at once, 40 ms each: 100 a second. */
const SERVICE = ["deploy/demo/slow-service.ts", "4", "40", "100"] as const;
const USUAL = 60;
const OVERLOAD = 250;
/** A caller who waits longer has gone elsewhere: what comes later is no good. */
const PATIENCE_MS = 300;

interface Phase {
  readonly name: string;
  readonly perSecond: number;
  /** Parts of the whole. */
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

/** One overload from beginning to end, as a table that grows. */
async function play(stage: Stage, title: string, seconds: number): Promise<void> {
  say(`\n${title}\n${line(COLUMNS)}`);
  const load = new Load(`${stage.url("Envoy")}/`, PATIENCE_MS);
  try {
    let told = Promise.resolve();
    for (const phase of PHASES) {
      const tally = newTally();
      const ms = (seconds * 1_000 * phase.share) / SHARES;
      const { answered } = await load.run(phase.perSecond, ms, tally, stage.stop);
      stage.stop.throwIfAborted();
      // Those who still wait belong to the phase in which they asked.
      told = told.then(() => answered).then(() => say(row(phase, tally, seconds)));
    }
    await told;
  } finally {
    load.close();
  }
}

/** A metrics server that reads Sluice's page every second, and answers the policy's queries instead of Sluice. */
async function startPrometheus(stage: Stage): Promise<void> {
  const binary = prometheus();
  await stage.mustBeFree("Prometheus");
  const config = join(stage.folder, "prometheus.yaml");
  const target = `127.0.0.1:${stage.port("Sluice")}`;
  writeFileSync(
    config,
    `scrape_configs: [{ job_name: sluice, scrape_interval: 1s, static_configs: [{ targets: ["${target}"] }] }]\n`,
  );
  await stage.spawn("Prometheus", binary, [
    ...["--config.file", config, "--storage.tsdb.path", join(stage.folder, "prometheus")],
    ...["--web.listen-address", `127.0.0.1:${stage.port("Prometheus")}`],
  ]);
  await stage.answers(`${stage.url("Prometheus")}/-/ready`);
}

interface Choice {
  /** Of one overload from beginning to end. */
  readonly seconds: number;
  /** A real metrics server stands beside. */
  readonly server: boolean;
  readonly policyOnly: boolean;
}

async function demo(stage: Stage, { seconds, server, policyOnly }: Choice): Promise<void> {
  const policies = join(stage.folder, "policies");
  mkdirSync(policies);
  say(`Starting a service, Sluice, Envoy${server ? " and Prometheus" : ""}.`);
  if (server) await startPrometheus(stage);
  const env = server ? { SVC_CONTROLLER_PROMETHEUS_ADDRESS: stage.url("Prometheus") } : {};
  await stage.start({ policies, service: SERVICE, env });
  say(`The service answers 100 requests a second, each in 40 ms. ${USUAL} a second come,`);
  say(
    `and ${OVERLOAD} during the overload. An answer after more than ${PATIENCE_MS} ms is no good.`,
  );
  say("Goodput, refusals and what came late or failed are per second.");
  if (!policyOnly) await play(stage, "Without a policy", seconds);
  cpSync(join(ROOT, "deploy/policies-loop", POLICY), join(policies, POLICY));
  // The file is found, compiled and its first decision made.
  await sleep(3_000, undefined, { signal: stage.stop });
  await play(stage, `With ${POLICY}`, seconds);
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
  const stage = new Stage(wholeNumber("shift", values.shift, 0, 50_000));
  await stage.run(() =>
    demo(stage, { seconds, server: values.prometheus, policyOnly: values["policy-only"] }),
  );
});
