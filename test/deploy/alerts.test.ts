// The alerts against every way to run Sluice, by the rules engine of Prometheus: what real processes export while they are well
// raises no alert, and each alert fires for its fault. A fault changes series that those processes export, or adds one of a metric
// that they export only in trouble, with all of its labels.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { parse } from "yaml";
import { walk } from "#promql/syntax/ast.ts";
import { parse as parsePromql } from "#promql/syntax/parse.ts";
import type { MetricTable } from "#telemetry/metrics/table/row.ts";
import { METRICS } from "#telemetry/metrics/table.ts";
import { prometheus } from "../../deploy/tools/install.ts";
import { cluster } from "../injector/cluster.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { child } from "../kit/servers/child.ts";
import { leads, listening, standsBy, startSluice } from "../kit/servers/sluice.ts";
import { passes } from "../kit/sluice/check.ts";
import { scraped } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const ROOT = join(import.meta.dirname, "../..");
const FILES = {
  agent: "deploy/prometheus/agent.yaml",
  controller: "deploy/prometheus/controller.yaml",
  injector: "deploy/prometheus/injector.yaml",
} as const;
type Program = keyof typeof FILES;

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
}

const rulesOf = (program: Program): readonly Rule[] =>
  parse(readFileSync(join(ROOT, FILES[program]), "utf8")).groups.flatMap(
    ({ rules }: { readonly rules: readonly Rule[] }) => rules,
  );

const PROGRAMS = ["agent", "controller", "injector"] as const satisfies readonly Program[];
const ALERTS = PROGRAMS.flatMap(rulesOf);

/** The metrics that alerts ask for; other series would only take time. */
const ASKED: ReadonlySet<string> = new Set(
  ALERTS.flatMap(({ expr }) => [...walk(parsePromql(expr))]).flatMap((node) =>
    node.kind === "selector" ? [node.name] : [],
  ),
);

type Labels = Readonly<Record<string, string>>;

interface Series {
  readonly name: string;
  readonly labels: Labels;
  /** In the notation of promtool, a sample each minute. */
  readonly values: string;
}

const TABLE: MetricTable = METRICS;
const SAMPLES = 90;
const POLICY = readFileSync(join(ROOT, "deploy/policies/per-user.yaml"), "utf8");

function samplesOf(page: string): ReadonlyMap<string, number> {
  const lines = page.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))] as const;
    }),
  );
}

/** What a process goes on exporting: gauges as they are, counters growing as they grew while it worked. */
function seriesOf(instance: string, before: string, after: string): readonly Series[] {
  const earlier = samplesOf(before);
  return [...samplesOf(after)].flatMap(([text, value]) => {
    const [, name = "", inner = ""] = /^([^{]+)(?:\{(.*)\})?$/.exec(text) ?? [];
    if (!ASKED.has(name)) return [];
    const grown = TABLE[name]?.type === "counter" ? value - (earlier.get(text) ?? value) : 0;
    const own = [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
      ([, key = "", label = ""]) => [key, label] as const,
    );
    const labels = { ...Object.fromEntries(own), instance, namespace: "n" };
    return [{ name, labels, values: `${value}+${grown}x${SAMPLES}` }];
  });
}

/** Accepted and refused checks, as a service that works sends them. */
async function work(address: string, user: string): Promise<void> {
  for (let at = 0; at < 8; at += 1) await passes(address, "ingress", { "x-user": user });
}

async function standaloneSeries(t: TestContext): Promise<readonly Series[]> {
  const { address } = await standaloneProcess(t, { policies: { "per-user.yaml": POLICY } });
  await work(address, "one");
  const before = await scraped(address);
  await work(address, "other");
  return seriesOf("standalone", before, await scraped(address));
}

async function fleetSeries(t: TestContext): Promise<Readonly<Record<string, readonly Series[]>>> {
  const { endpoints } = await startEtcd(t);
  const args = ["--policies", folderOf(t, { "per-user.yaml": POLICY })];
  const controller = startSluice(t, "controller", endpoints, args);
  await leads(controller);
  const standby = startSluice(t, "controller", endpoints, args);
  const agent = startSluice(t, "agent", endpoints, [], { COUNTERS_ENGINE: "peers" });
  await listening(controller, standby, agent);
  await standsBy(standby);
  const injector = await injectorProcess(t);
  const addresses = {
    agent: agent.address(),
    controller: controller.address(),
    standby: standby.address(),
    injector,
  };
  await work(addresses.agent, "one");
  const before = await Promise.all(Object.values(addresses).map((address) => scraped(address)));
  await work(addresses.agent, "other");
  const pages = Object.entries(addresses).map(
    async ([name, address], at) =>
      [name, seriesOf(name, before[at] ?? "", await scraped(address))] as const,
  );
  return Object.fromEntries(await Promise.all(pages));
}

/** The address of its main port, once it has searched for pods without an agent. */
async function injectorProcess(t: TestContext): Promise<string> {
  const held = await cluster(t);
  held.addNamespace("shop");
  const folder = folderOf(t);
  const env = {
    ...variables("injector", { SIDECAR_IMAGE: "sluice:1", WEBHOOK_ADDR: "127.0.0.1:0" }),
    KUBECONFIG: held.kubeconfig,
    TMPDIR: folder,
  };
  const program = child(t, process.execPath, [join(ROOT, "src/cli/sluice.js"), "injector"], {
    env,
    cwd: folder,
  });
  const address = () =>
    /"component":"port".*"message":"listening on ([^"]+)"/.exec(program.err())?.[1];
  await program.until("the injector listens", () => address() !== undefined);
  const found = address() ?? "";
  await until("it has searched", async () =>
    (await scraped(found)).includes("sluice_injector_missed_pods"),
  );
  return found;
}

/** A series of a process that has trouble. */
interface Change {
  readonly on: string;
  readonly name: string;
  readonly labels?: Labels;
  readonly values: string;
}

interface Fault {
  readonly changes?: readonly Change[];
  /** Processes that are gone. */
  readonly gone?: readonly string[];
}

const DAY = 86_400;
const GROWING = `0+60x${SAMPLES}`;
const constant = (value: number) => `${value}x${SAMPLES}`;
const degraded = (on: string, dependency: string): Fault => ({
  changes: [
    { on, name: "sluice_dependency_degraded", labels: { dependency }, values: constant(1) },
  ],
});
const counts = (on: string, name: string, labels: Labels = {}): Fault => ({
  changes: [{ on, name, labels, values: GROWING }],
});
const reads = (on: string, name: string, value: number, labels: Labels = {}): Fault => ({
  changes: [{ on, name, labels, values: constant(value) }],
});
const expires = (on: string): Fault => ({
  changes: [
    { on, name: "certificate_expiry_seconds", labels: { file: "f" }, values: constant(DAY) },
    { on, name: "certificate_lifetime_seconds", labels: { file: "f" }, values: constant(90 * DAY) },
  ],
});

/** By alert, each way in which it has to fire. */
const FAULTS: Readonly<Record<string, readonly Fault[]>> = {
  SluiceNoLeader: [
    { gone: ["controller", "standby"] },
    reads("controller", "sluice_leader", 0),
    { gone: ["controller", "standby", "agent"] },
  ],
  SluiceSeveralLeaders: [reads("standby", "sluice_leader", 1)],
  SluicePolicyRefused: [reads("controller", "sluice_policies", 1, { state: "refused" })],
  SluicePoliciesKept: [reads("controller", "sluice_policies", 1, { state: "kept" })],
  SluicePolicyWarnings: [reads("controller", "sluice_policy_warnings", 1)],
  SluiceCircuitFaults: [counts("controller", "sluice_circuit_faults_total")],
  SluiceQueriesFail: [counts("controller", "sluice_circuit_queries_total", { result: "failed" })],
  SluiceTicksSkipped: [counts("controller", "sluice_circuit_ticks_skipped_total")],
  SluiceCommitsFail: [
    counts("controller", "sluice_controller_commits_total", { result: "failure" }),
  ],
  SluiceCheckpointsFail: [
    counts("controller", "sluice_policy_checkpoints_total", { result: "failed" }),
  ],
  SluiceAttachingFails: [degraded("controller", "gateway_api")],
  SluiceScalingFails: [degraded("controller", "auto_scale")],
  SluiceAlertsLost: [counts("controller", "sluice_alerts_total", { result: "failed" })],
  SluiceControllerStoreAway: [degraded("controller", "store"), degraded("standby", "store")],
  SluiceControllerKubernetesAway: [
    degraded("controller", "kubernetes"),
    degraded("controller", "discovery"),
  ],
  SluiceControllerCertificateExpires: [expires("controller")],
  SluiceAgentStoreAway: [degraded("agent", "store")],
  SluiceAgentWithoutServices: [degraded("agent", "discovery")],
  SluiceAgentKeepsLostRules: [reads("agent", "sluice_rules_kept", 3)],
  SluiceCounterEngineAway: [reads("agent", "sluice_counter_engine_up", 0)],
  SluiceUndecidedChecks: [
    counts("agent", "sluice_anomalies_total", { kind: "undecided" }),
    counts("agent", "sluice_anomalies_total", { kind: "late" }),
  ],
  SluiceShedsChecks: [counts("agent", "sluice_shed_checks_total")],
  SluiceKeysOverflow: [counts("agent", "sluice_anomalies_total", { kind: "keys_overflow" })],
  SluiceMissingLabels: [counts("agent", "sluice_limiter_missing_labels_total")],
  SluiceRejectsNearlyEverything: [
    {
      changes: [
        {
          on: "agent",
          name: "flowcontrol_decisions_total",
          labels: { decision_type: "DECISION_TYPE_REJECTED" },
          values: `0+300x${SAMPLES}`,
        },
      ],
    },
  ],
  SluiceConnectionsRefused: [
    counts("agent", "server_refused_connections_total", { reason: "too_many" }),
  ],
  SluiceSamplesLost: [
    counts("agent", "sluice_remote_write_samples_total", { result: "dropped" }),
    counts("agent", "sluice_remote_write_samples_total", { result: "refused" }),
  ],
  SluiceAgentCertificateExpires: [expires("agent")],
  SluicePodsWithoutAgent: [reads("injector", "sluice_injector_missed_pods", 2)],
  SluiceNoInjector: [{ gone: ["injector"] }],
  SluiceInjectorDegraded: ["sidecar-settings", "certificates", "webhook", "kubernetes"].map(
    (dependency) => degraded("injector", dependency),
  ),
  SluiceInjectorRefusesPods: [
    counts("injector", "sluice_injector_reviews_total", { result: "refused" }),
    counts("injector", "sluice_injector_reviews_total", { result: "invalid" }),
  ],
};

/** The faults that standalone can have, whose process has another name. */
const OF_STANDALONE = [
  "SluicePolicyRefused",
  "SluicePolicyWarnings",
  "SluiceCircuitFaults",
  "SluiceTicksSkipped",
  "SluiceCommitsFail",
  "SluiceAgentKeepsLostRules",
  "SluiceUndecidedChecks",
  "SluiceShedsChecks",
  "SluiceKeysOverflow",
  "SluiceMissingLabels",
  "SluiceRejectsNearlyEverything",
  "SluiceConnectionsRefused",
  "SluiceAgentCertificateExpires",
] as const;

/** The series of some processes, with a fault among them. */
function withFault(
  processes: Readonly<Record<string, readonly Series[]>>,
  { changes = [], gone = [] }: Fault,
): readonly Series[] {
  const healthy = Object.entries(processes).flatMap(([name, all]) =>
    gone.includes(name) ? [] : all,
  );
  return changes.reduce<readonly Series[]>((all, { on, name, labels = {}, values }) => {
    const isChanged = (each: Series) =>
      each.name === name &&
      each.labels["instance"] === on &&
      Object.entries(labels).every(([key, value]) => each.labels[key] === value);
    if (all.some(isChanged))
      return all.map((each) => (isChanged(each) ? { ...each, values } : each));
    const own = TABLE[name]?.labels ?? assert.fail(`${name} is a metric`);
    const strange = Object.keys(labels).filter((key) => !own.includes(key));
    assert.deepEqual(strange, [], `labels of ${name}`);
    const added = Object.fromEntries(own.map((key) => [key, labels[key] ?? "x"]));
    return all.concat({ name, labels: { ...added, instance: on, namespace: "n" }, values });
  }, healthy);
}

interface Case {
  readonly name: string;
  readonly programs: readonly Program[];
  readonly series: readonly Series[];
  readonly fires: readonly string[];
}

/** Minutes until these alerts have fired, with a margin for windows of rates; as long as for the slowest where none may. */
function minutesUntil(fires: readonly string[]): number {
  const waits = ALERTS.filter(({ alert }) => fires.length === 0 || fires.includes(alert)).map(
    (rule) => {
      const [, number, unit] = /^(\d+)([mh])$/.exec(rule.for) ?? assert.fail(rule.for);
      return Number(number) * (unit === "h" ? 60 : 1);
    },
  );
  return Math.max(...waits) + 15;
}

/** A group of tests for promtool: these alerts have fired until then, and no others. */
const groupOf = ({ name, series, fires }: Case) => ({
  name,
  interval: "1m",
  input_series: series.map(({ name, labels, values }) => {
    const text = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    return { series: `${name}{${text.join(",")}}`, values };
  }),
  promql_expr_test: [
    {
      // The label tells which case has failed.
      expr: `label_replace(count by (alertname) (last_over_time(ALERTS{alertstate="firing"}[2h])), "case", "${name}", "", "")`,
      eval_time: `${minutesUntil(fires)}m`,
      exp_samples: fires.map((alert) => ({
        labels: `{alertname="${alert}",case="${name}"}`,
        value: 1,
      })),
    },
  ],
});

/** Runs the rules engine over these cases, which have the rules of the same programs. */
function runs(t: TestContext, cases: readonly Case[]): void {
  assert.ok(cases.length > 0);
  const text = JSON.stringify({
    rule_files: cases[0]?.programs.map((program) => join(ROOT, FILES[program])),
    evaluation_interval: "1m",
    tests: cases.map(groupOf),
  });
  const folder = folderOf(t, { "cases.json": text });
  execFileSync("promtool", ["test", "rules", join(folder, "cases.json")], { stdio: "pipe" });
}

test("every way to run raises no alert while all is well, and each alert fires for its fault", async (t) => {
  prometheus();
  const standalone = { standalone: await standaloneSeries(t) };
  const fleet = await fleetSeries(t);
  const { injector: _, ...bare } = fleet;
  const all = Object.entries(FAULTS).flatMap(([alert, faults]) =>
    faults.map((fault, at) => ({
      name: `${alert} ${at}`,
      programs: PROGRAMS,
      series: withFault(fleet, fault),
      fires: [alert],
    })),
  );
  assert.deepEqual(Object.keys(FAULTS).sort(), ALERTS.map(({ alert }) => alert).sort());
  runs(t, [
    {
      name: "fleet",
      programs: PROGRAMS,
      series: withFault(fleet, {}),
      fires: [],
    },
    ...all,
  ]);
  const programs = ["agent", "controller"] as const;
  runs(t, [{ name: "without an injector", programs, series: withFault(bare, {}), fires: [] }]);
  runs(t, [
    { name: "standalone", programs, series: withFault(standalone, {}), fires: [] },
    ...OF_STANDALONE.flatMap((alert) =>
      (FAULTS[alert] ?? []).map(({ changes = [] }) => ({
        name: `${alert} of standalone`,
        programs,
        series: withFault(standalone, {
          changes: changes.map((each) => ({ ...each, on: "standalone" })),
        }),
        fires: [alert],
      })),
    ),
    {
      name: "SluiceNoLeader beside a standalone",
      programs,
      series: withFault({ ...standalone, ...bare }, { gone: ["controller", "standby"] }),
      fires: ["SluiceNoLeader"],
    },
  ]);
});
