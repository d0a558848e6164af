// Warnings about policies that run: what the log, the status of the policy and the metric say.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { PolicyLoop } from "#controller/loop/policy-loop.ts";
import { PolicyWarnings } from "#controller/warnings/policy-warnings.ts";
import type { Need } from "#policy/compiled.ts";
import { SLICE_PIECES } from "#runtime/life/slices.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import { fakeClock } from "../kit/clock.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { CONSTANT_PORTS, circuit, rateLimiter, SELECTORS } from "../policy/kit.ts";
import { aComponent, aDecision, aFlow, aVerdict } from "../telemetry/kit.ts";
import { type Bench, type BenchOptions, bench } from "./kit.ts";

interface Shown {
  readonly code: string;
  readonly path: string;
  readonly text: string;
  readonly why: string;
}

function shownOf({ status }: Bench, policy: string): readonly Shown[] {
  const node = status.find(`system/policies/key/${policy}`);
  const view = node?.view() as
    | { status: { message: { value: { warnings: Shown[] } } } }
    | undefined;
  return view?.status.message.value.warnings ?? [];
}

function codesOf(of: Bench, policy: string): readonly string[] {
  return shownOf(of, policy).map(({ code }) => code);
}

function countOf({ metrics }: Bench, policy: string, code: string): number {
  return metrics.read("sluice_policy_warnings", { policy_name: policy, code }) ?? 0;
}

const byLabel = (label: string) =>
  circuit(rateLimiter(CONSTANT_PORTS, `parameters: {interval: 1s, limit_by_label_key: ${label}}`));
const classifying = (label: string) =>
  `resources: {flow_control: {classifiers: [{${SELECTORS}, rules: {${label}: {extractor: {from: request.http.host}}}}]}}\n`;

/** A rate limiter whose capacity is the answer to a query. */
function measuring(query: string): string {
  const ports = "bucket_capacity: {signal_name: A}, fill_amount: {constant_signal: {value: 1}}";
  return circuit(
    `query: {promql: {query_string: '${query}', evaluation_interval: 1s, out_ports: {output: {signal_name: A}}}}`,
    rateLimiter(ports),
  );
}

/** The checks that an agent counts. */
class Checks implements MetricSource {
  readonly counts = new Map<string, number>();

  collect(to: Parameters<MetricSource["collect"]>[0]): void {
    for (const [point, count] of this.counts)
      to.number("flowcontrol_requests_total", [point, "default"], count);
  }
}

/** Waits until the examinations are over that the clock has started: they take turns of the event loop. */
async function examined({ turn }: Bench): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn();
}

async function started(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  options: Omit<BenchOptions, "files"> = {},
) {
  const of = await bench(t, { files, agentGroup: "default", ...options });
  const checks = new Checks();
  of.metrics.add(checks);
  await examined(of);
  return { of, checks, logged: (part: string) => of.logged.filter((line) => line.includes(part)) };
}

describe("warnings about running policies", () => {
  it("a label that nothing makes, until another policy makes it", async (t) => {
    const { of, logged } = await started(t, { "p.yaml": byLabel("user") });
    assert.deepEqual(codesOf(of, "p"), ["unknown_label"]);
    assert.equal(countOf(of, "p", "unknown_label"), 1);
    assert.equal(logged("policy p: circuit.components[0]").length, 1);
    of.clock.advance(300_000);
    await examined(of);
    assert.equal(logged("the label user").length, 1);
    of.write("q.yaml", classifying("user"));
    await of.when("the classifier is in force", () => codesOf(of, "p").length === 0);
    assert.equal(countOf(of, "p", "unknown_label"), 0);
    assert.equal(logged("resolved: circuit.components[0]").length, 1);
  });

  it("a label that only callers send, until a limiter has seen it", async (t) => {
    const keyed = byLabel("user");
    const taking = circuit(
      rateLimiter(
        CONSTANT_PORTS,
        "parameters: {interval: 1s}, request_parameters: {tokens_label_key: cost}",
      ),
    );
    const { of, logged } = await started(t, { "p.yaml": keyed, "q.yaml": taking });
    const flows = new FlowMetrics({ agent_group: "default" });
    of.metrics.add(flows);
    const judged = async (policy: string, missing?: "key" | "tokens") => {
      const [, policyHash = ""] =
        new RegExp(`\\b${policy} \\((\\w+)\\)`).exec(of.logged.join("\n")) ?? [];
      const component = aComponent({ policyName: policy, policyHash, componentId: "root.0" });
      if (missing !== undefined) flows.missingLabel(component, missing);
      flows.decided(aFlow(), aVerdict({ decisions: [aDecision({ component })] }));
      of.clock.advance(30_000);
      await examined(of);
    };
    await judged("p", "key");
    await judged("q", "tokens");
    assert.deepEqual(codesOf(of, "p"), ["unknown_label"]);
    assert.deepEqual(codesOf(of, "q"), ["unknown_label"]);
    // A flow that lacks one label may have the other.
    await judged("q", "tokens");
    assert.deepEqual(codesOf(of, "q"), ["unknown_label"]);
    await judged("p");
    assert.deepEqual(codesOf(of, "p"), []);
    assert.deepEqual(codesOf(of, "q"), ["unknown_label"]);
    assert.equal(logged("resolved: circuit.components[0]").length, 1);
    // An edited policy counts from nothing, and its label is still known.
    of.write("p.yaml", `${keyed}\n# edited\n`.replace("1s", "2s"));
    await of.when("the edit is in force", () => logged("changed: p").length > 0);
    of.clock.advance(30_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "p"), []);
  });

  it("a metric that nothing measures, and a flux meter that no policy defines", async (t) => {
    const { of, logged } = await started(t, {
      "p.yaml": measuring("my_latency"),
      "q.yaml": measuring('sum(flux_meter_sum{flux_meter_name="m"})'),
    });
    assert.ok(codesOf(of, "p").includes("unknown_metric"));
    assert.ok(codesOf(of, "q").includes("unknown_flux_meter"));
    assert.equal(logged("a query reads my_latency, which Sluice does not measure").length, 1);
    assert.equal(logged("a query reads the flux meter m, which no policy defines").length, 1);
  });

  it("parts that agents do not act on", async (t) => {
    const rego = 'rego: {labels: {a: {}}, module: "package p\\na := 1"}';
    const { of } = await started(t, {
      "p.yaml": `resources: {flow_control: {classifiers: [{${SELECTORS}, ${rego}}]}}\n`,
    });
    const [shown] = shownOf(of, "p");
    assert.equal(shown?.code, "not_run");
    assert.equal(shown.path, "resources.flow_control.classifiers[0].rego");
    assert.equal(countOf(of, "p", "not_run"), 1);
  });

  it("a control point that no check has named for ten minutes, in one line for all its policies", async (t) => {
    const limited = circuit(rateLimiter(CONSTANT_PORTS));
    const { of, checks, logged } = await started(t, { "a.yaml": limited, "b.yaml": limited });
    of.clock.advance(570_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), []);
    of.clock.advance(60_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), ["unused_control_point"]);
    assert.equal(countOf(of, "b", "unused_control_point"), 1);
    assert.deepEqual(
      logged("no check has named").map((line) => line.replace(/: circuit.*?: /, ": ")),
      ["policies a; b: no check has named the control point ingress for ten minutes"],
    );
    checks.counts.set("ingress", 1);
    of.clock.advance(30_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), []);
    assert.equal(logged("resolved:").length, 1);
    // The last check is ten minutes ago again.
    of.clock.advance(630_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), ["unused_control_point"]);
  });

  it("checks at other control points do not count, and without an agent here nothing is known", async (t) => {
    const limited = circuit(rateLimiter(CONSTANT_PORTS));
    const { of, checks } = await started(t, { "a.yaml": limited });
    for (let minute = 0; minute < 12; minute++) {
      checks.counts.set("egress", minute);
      of.clock.advance(60_000);
    }
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), ["unused_control_point"]);
    const alone = await bench(t, { files: { "a.yaml": limited } });
    alone.clock.advance(1_200_000);
    await examined(alone);
    assert.deepEqual(codesOf(alone, "a"), []);
  });

  it("an agent group that no agent has, named or by default", async (t) => {
    const limited = circuit(rateLimiter(CONSTANT_PORTS));
    const elsewhere = limited.replace(
      SELECTORS,
      "selectors: [{control_point: ingress, agent_group: shops}]",
    );
    const { of, logged } = await started(
      t,
      { "a.yaml": limited, "b.yaml": elsewhere },
      { agentGroup: "shop" },
    );
    assert.deepEqual(codesOf(of, "a"), ["unknown_agent_group"]);
    assert.deepEqual(codesOf(of, "b"), ["unknown_agent_group"]);
    assert.equal(logged("no agent is in the agent group default").length, 1);
    assert.equal(logged("no agent is in the agent group shops; did you mean shop?").length, 1);
    // It says more than that its control point is unused.
    of.clock.advance(660_000);
    await examined(of);
    assert.deepEqual(codesOf(of, "a"), ["unknown_agent_group"]);
    assert.equal(countOf(of, "a", "unknown_agent_group"), 1);
  });

  it("the default agent group is a setting, for documents of every size", async (t) => {
    const limited = circuit(rateLimiter(CONSTANT_PORTS));
    const env = { SVC_CONTROLLER_POLICIES_DEFAULT_AGENT_GROUP: "shop" };
    const files = { "a.yaml": limited, "b.yaml": `${limited}\n# ${"x".repeat(9_000)}\n` };
    const { of } = await started(t, files, { agentGroup: "shop", env });
    assert.deepEqual([...codesOf(of, "a"), ...codesOf(of, "b")], []);
    const keys = of.commits.flatMap((commit) => [...commit.keys()]);
    const limiters = keys.filter((key) => key.includes("/rate_limiter/"));
    assert.ok(limiters.length > 0);
    assert.deepEqual(
      limiters.filter((key) => !key.includes("agent_group-shop-policy-")),
      [],
    );
  });

  it("a limiter that the policy lets pass everything does not fail open", async (t) => {
    const ports = (pass: string) =>
      `bucket_capacity: {signal_name: NONE}, fill_amount: {constant_signal: {value: 1}}, pass_through: {constant_signal: {value: ${pass}}}`;
    const none =
      "variable: {constant_output: {special_value: NaN}, out_ports: {output: {signal_name: NONE}}}";
    const { of } = await started(t, {
      "p.yaml": circuit(none, rateLimiter(ports("1"))),
      "q.yaml": circuit(none, rateLimiter(ports("0"))),
    });
    of.clock.advance(2_000);
    assert.equal(countOf(of, "p", "fails_open"), 0);
    assert.equal(countOf(of, "q", "fails_open"), 1);
  });

  it("a signal that has never been valid, with its reason; signals that follow from it are not named", async (t) => {
    const { of, logged } = await started(t, {
      "p.yaml": measuring('sluice_circuit_ticks_total{policy_name="none"}'),
    });
    of.clock.advance(50_000);
    assert.ok(!codesOf(of, "p").includes("invalid_signal"));
    for (let second = 0; second < 60; second++) {
      of.clock.advance(1_000);
      await of.turn();
    }
    const shown = shownOf(of, "p").filter(({ code }) => code === "invalid_signal");
    assert.deepEqual(
      shown.map(({ text }) => text),
      ["the signal A of circuit root has never been valid"],
    );
    assert.match(shown[0]?.why ?? "", /^query of root\.0: /);
    assert.equal(logged("the signal A of circuit root has never been valid: query of").length, 1);
    assert.equal(countOf(of, "p", "fails_open"), 1);
  });
});

it("a signal has ten ticks to become valid, however long they take", async (t) => {
  const slow = measuring('sluice_circuit_ticks_total{policy_name="none"}').replace(
    "circuit:",
    "circuit:\n  evaluation_interval: 60s",
  );
  const { of } = await started(t, { "p.yaml": slow });
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 10) {
      of.clock.advance(10_000);
      await of.turn();
    }
  };
  // The first tick is that of the start, so this is the ninth.
  await pass(8 * 60 + 30);
  assert.ok(!codesOf(of, "p").includes("invalid_signal"));
  await pass(60);
  assert.ok(codesOf(of, "p").includes("invalid_signal"));
});

describe("an examination", () => {
  const need: Need = { kind: "metric", name: "m", at: { line: 1, column: 1 }, path: "circuit" };

  function examining(policies: number) {
    const loops = new Map<string, PolicyLoop>();
    for (let at = 0; at < policies; at++) {
      const name = `p${at}`;
      const supply = { labels: [], fluxMeters: [] };
      const policy = { name, needs: [need], supply, warnings: [] };
      const loop = { version: { policy, origin: "file" }, diagnosis: { warnings: () => [] } };
      loops.set(name, loop as unknown as PolicyLoop);
    }
    /** Calls that no turn of the event loop divides. */
    const calls: number[] = [0];
    const warnings = new PolicyWarnings({
      loops: () => loops,
      clock: fakeClock(),
      log: { info: () => undefined, warn: () => undefined },
      knowsMetric: () => {
        if (calls.at(-1) === 0) setImmediate(() => calls.push(0));
        calls[calls.length - 1] = (calls.at(-1) ?? 0) + 1;
        return false;
      },
      agentGroups: undefined,
      checks: undefined,
      scaling: () => [],
      attaching: () => [],
      limiters: () => [],
    });
    const total = () => calls.reduce((sum, each) => sum + each, 0);
    return { warnings, calls, total };
  }

  it("logs twenty lines at most of what began and of what ended, and counts the others", async () => {
    const loops = new Map<string, PolicyLoop>();
    const policyOf = (name: string, needs: readonly Need[]) => {
      const policy = { name, needs, supply: { labels: [], fluxMeters: [] }, warnings: [] };
      const loop = { version: { policy, origin: "file" }, diagnosis: { warnings: () => [] } };
      loops.set(name, loop as unknown as PolicyLoop);
    };
    const lines: string[] = [];
    const warnings = new PolicyWarnings({
      loops: () => loops,
      clock: fakeClock(),
      log: {
        info: (_, message) => lines.push(message),
        warn: (_, message) => lines.push(message),
      },
      knowsMetric: () => false,
      agentGroups: undefined,
      checks: undefined,
      scaling: () => [],
      attaching: () => [],
      limiters: () => [],
    });
    const examined = async (needs: number) => {
      policyOf(
        "p",
        Array.from({ length: needs }, (_, at) => ({ ...need, name: `m${at}` })),
      );
      lines.length = 0;
      await warnings.examine();
      return lines;
    };
    const begun = await examined(23);
    assert.equal(begun.filter((line) => line.startsWith("policy p: ")).length, 20);
    assert.deepEqual(begun.slice(20), ["3 more warnings are in the status of the policies"]);
    const ended = await examined(0);
    assert.equal(ended.filter((line) => line.startsWith("resolved: circuit")).length, 20);
    assert.deepEqual(ended.slice(20), ["resolved: 3 more"]);
    // None is cut from exactly twenty.
    assert.equal((await examined(20)).length, 20);
    assert.equal((await examined(0)).length, 20);
    warnings.close();
  });

  it("of many policies lets the event loop turn", async () => {
    const { warnings, calls, total } = examining(10 * SLICE_PIECES);
    await warnings.examine();
    assert.equal(total(), 10 * SLICE_PIECES);
    assert.ok(Math.max(...calls) <= SLICE_PIECES, `${calls}`);
    assert.equal(warnings.of("p0")[0]?.code, "unknown_metric");
    assert.equal(warnings.of(`p${10 * SLICE_PIECES - 1}`)[0]?.code, "unknown_metric");
  });

  it("that is asked for during another one follows it, once", async () => {
    const { warnings, total } = examining(2 * SLICE_PIECES);
    const first = warnings.examine();
    void warnings.examine();
    void warnings.examine();
    await first;
    assert.equal(total(), 4 * SLICE_PIECES);
  });

  it("ends with the controller", async () => {
    const { warnings, total } = examining(2 * SLICE_PIECES);
    const first = warnings.examine();
    void warnings.examine();
    warnings.close();
    await first;
    assert.equal(total(), 2 * SLICE_PIECES);
  });
});

describe("an examination that fails", () => {
  it("is logged, and the next one examines again", async () => {
    const clock = fakeClock();
    const log = memoryLog();
    let examinations = 0;
    const warnings = new PolicyWarnings({
      loops: () => {
        examinations += 1;
        if (examinations === 1) throw new Error("out of the blue");
        return new Map();
      },
      clock,
      log,
      knowsMetric: undefined,
      agentGroups: undefined,
      checks: undefined,
      scaling: () => [],
      attaching: () => [],
      limiters: () => [],
    });
    await warnings.examine();
    assert.equal(examinations, 1);
    assert.match(log.lines.map(({ message }) => message).join(), /not examined for warnings/);
    await warnings.examine();
    assert.equal(examinations, 2);
    warnings.close();
  });
});
