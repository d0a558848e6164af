// The metrics of circuits: over changes of a policy, and beside the recorded metrics of another controller.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { PolicyLoop } from "#controller/loop/policy-loop.ts";
import { Schedule } from "#controller/loop/ticker.ts";
import { compileSet } from "#policy/set.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { METRICS, type MetricName } from "#telemetry/metrics/table.ts";
import { fakeClock } from "../../kit/clock.ts";
import { logTo } from "../../kit/sluice/log.ts";

const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };

function setup() {
  const circuits = new CircuitMetrics();
  const metrics = new Metrics(PLAIN);
  metrics.add(circuits);
  const signals = (...names: string[]) => names.map((name) => ({ circuit: "root", name }));
  const ticks = (signal_name: string) => metrics.read("signal_reading", { signal_name });
  return { circuits, metrics, signals, ticks };
}

test("a new version has series for its own signals only, and signals with the same name keep theirs", () => {
  const { circuits, metrics, signals, ticks } = setup();
  const first = circuits.policy("p", signals("A", "GONE"));
  first.ticked(0, () => 1);
  const bad = circuits.policy("p", signals("B", "A"));
  assert.deepEqual(["A", "GONE", "B"].map(ticks), [1, undefined, 0]);
  bad.ticked(0, (at) => (at === 0 ? Number.NaN : Number.POSITIVE_INFINITY));
  assert.equal(metrics.read("invalid_signal_readings_total", { signal_name: "B" }), 1);
  assert.equal(metrics.read("infinite_signal_readings_total", { signal_name: "A" }), 1);
  circuits.policy("p", signals("C"));
  assert.deepEqual(["A", "B", "C"].map(ticks), [undefined, undefined, 0]);
  assert.equal(metrics.read("invalid_signal_readings_total"), undefined);
  assert.equal(metrics.read("infinite_signal_readings_total"), undefined);
  circuits.policy("p", signals("A"));
  assert.equal(ticks("A"), 0, "a signal that returns is a new one");
});

test("faults are those of the version in force; those of other policies stay", () => {
  const { circuits, metrics, signals } = setup();
  const faults = (policy_name: string) =>
    metrics.read("sluice_circuit_faults_total", { policy_name });
  circuits.policy("p", signals()).fault("root.7", "decider");
  circuits.policy("q", signals()).fault("root.1", "alerter");
  const next = circuits.policy("p", signals());
  assert.deepEqual([faults("p"), faults("q")], [undefined, 1]);
  for (const id of ["root.0", "root.0", "root.1"]) next.fault(id, "decider");
  assert.equal(
    metrics.read("sluice_circuit_faults_total", { component_id: "root.0", policy_name: "p" }),
    2,
  );
});

test("ticks, decisions and queries of a policy are counted over its versions and disappear with it", () => {
  const { circuits, metrics, signals } = setup();
  for (let version = 0; version < 2; version++) {
    const meter = circuits.policy("p", signals("A"));
    meter.ticked(0, () => 1);
    meter.decided("sampler");
    circuits.ended("p", "late");
    circuits.retried("p");
  }
  const names = [
    ...(["sluice_circuit_ticks_total", "sluice_circuit_decisions_total"] as const),
    ...(["sluice_circuit_queries_total", "sluice_circuit_query_retries_total"] as const),
  ];
  assert.deepEqual(
    names.map((name) => metrics.read(name)),
    [2, 2, 2, 2],
  );
  circuits.remove("p");
  circuits.ended("p", "late");
  circuits.retried("p");
  const left = [...metrics.samples(() => true)].filter(({ labels }) => "policy_name" in labels);
  assert.deepEqual(left, []);
});

interface Recording {
  readonly policy: string;
  readonly help_and_type: readonly string[];
  readonly series: readonly string[];
  readonly metric_names: readonly string[];
}

const RECORDED = JSON.parse(
  readFileSync("test/golden/control-api/metrics.json", "utf8"),
) as Recording;
const NAME = "api-alert";

/** A loop that has run the recorded policy for as many ticks. */
function replayed() {
  const digest = (of: string) => createHash("sha256").update(of).digest("hex");
  const texts = [{ source: NAME, defaultName: NAME, text: RECORDED.policy }];
  const set = compileSet(texts, { digest, queries: "prometheus" });
  const [policy] = set.policies;
  assert.ok(policy, JSON.stringify(set.findings));
  const clock = fakeClock();
  const circuits = new CircuitMetrics();
  const metrics = new Metrics(PLAIN);
  metrics.add(circuits);
  const version = { policy: policy, dynamicConfig: undefined, origin: "api" } as const;
  const loop = new PolicyLoop(version, {
    clock,
    schedule: new Schedule(clock),
    metrics: circuits,
    outbox: { put: () => undefined },
    queries: { ask: () => undefined, drop: () => undefined },
    alerts: { fire: () => undefined },
    log: logTo((level, _, message) => assert.notEqual(level, "warn", message)),
  });
  loop.load(version);
  loop.startTicks();
  clock.advance(8_000);
  loop.stop();
  return { loop, metrics };
}

/** One line per sample, labels sorted. */
function line(labels: Readonly<Record<string, string>>, value: number): string {
  const { __name__, ...rest } = labels;
  const pairs = Object.entries(rest).map(([key, text]) => `${key}="${text}"`);
  return `${__name__}{${pairs.sort().join(",")}} ${value}`;
}

/** The reason for which a recorded line is not ours; undefined where it has to be. */
function reasonAgainst(recorded: string): string | undefined {
  if (recorded.endsWith(" NaN")) return "without a valid reading there are no quantiles";
  const looped = 'signal_name="SUM",sub_circuit_id="root"';
  // D-18: the reading at the start of a tick and the one at its end were both counted.
  return recorded.includes(looped) ? "a looped signal is observed once per tick" : undefined;
}

test("metrics of a recorded policy: the same series with the same values, apart from improvements", () => {
  const { loop, metrics } = replayed();
  const ours = [...metrics.samples((name) => !name.startsWith("sluice_"))].map(
    ({ labels, value }) => line(labels, value),
  );
  const theirs = RECORDED.series.map((text) => {
    const [, name = "", labels = "", value = ""] = /^(\w+)\{(.*)\} (\S+)$/.exec(text) ?? [];
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = "", of = ""]) => [
      key,
      of,
    ]);
    return line({ __name__: name, ...Object.fromEntries(pairs) }, Number(value));
  });
  assert.equal(theirs.length, 57);
  const missing = theirs.filter((each) => !ours.includes(each));
  assert.deepEqual(
    missing.filter((each) => reasonAgainst(each) === undefined),
    [],
  );
  const names = (lines: readonly string[]) => lines.map((each) => each.replace(/ \S+$/, ""));
  const wanted = names(theirs.filter((each) => !each.endsWith(" NaN")));
  // The first of the two readings of a tick was invalid before the first tick, and is not counted here.
  const before =
    'invalid_signal_readings_total{policy_name="api-alert",signal_name="SUM",sub_circuit_id="root"}';
  assert.deepEqual(
    wanted.filter((each) => !names(ours).includes(each)),
    [before],
  );
  assert.deepEqual(
    names(ours).filter((each) => !wanted.includes(each)),
    [],
    "and none beside them",
  );
  const sum = 'policy_name="api-alert",signal_name="SUM",sub_circuit_id="root"';
  assert.ok(ours.includes(`signal_reading_count{${sum}} 9`));
  assert.ok(ours.includes(`signal_reading_sum{${sum}} 45`));
  loop.unload();
  assert.deepEqual(
    [...metrics.samples((name) => !/^sluice_(query|controller)/.test(name))],
    [],
    "no counter outlives its policy",
  );
});

test("every recorded metric exists with the same type and the documented labels", () => {
  const metrics = new Metrics(PLAIN);
  assert.ok(RECORDED.metric_names.length > 15);
  for (const name of RECORDED.metric_names) assert.ok(metrics.knows(name), name);
  const types = RECORDED.help_and_type.flatMap((text) => {
    const [, name = "", type] = /^# TYPE (\S+) (\S+)$/.exec(text) ?? [];
    return type === undefined ? [] : [[name, type] as const];
  });
  assert.equal(types.length, 11);
  const signal = ["signal_name", "sub_circuit_id", "policy_name"];
  const http = ["http_method", "http_status_code", "handler_name"];
  const grpc = ["grpc_type", "grpc_service", "grpc_method"];
  for (const [name, type] of types) {
    const row = METRICS[name as MetricName];
    const documented = name.startsWith("http_") ? http : name.startsWith("grpc_") ? grpc : signal;
    const code = name === "grpc_server_handled_total" ? ["grpc_code"] : [];
    assert.deepEqual([row.type, row.labels], [type, [...documented, ...code]], name);
  }
});
