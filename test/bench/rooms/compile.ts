// Measures how long it takes to read, judge and compile a policy of 200 components, once the code is warm.
// `node test/bench/rooms/compile.ts` prints the times; nothing is asserted.

import { createHash } from "node:crypto";
import { performance } from "node:perf_hooks";
import { compilePolicy } from "#policy/compile.ts";
import { readPolicies } from "#policy/document/read.ts";

const COMPONENTS = 200;
const WARM = 30;
const RUNS = 100;

const options = {
  digest: (text: string) => createHash("sha256").update(text).digest("hex"),
  queries: "prometheus",
} as const;

const signal = (name: string) => `{signal_name: ${name}}`;
const constant = (value: number) => `{constant_signal: {value: ${value}}}`;

/** A mix of common components. Each one reads the output of the one before it. */
function component(at: number): string {
  const [input, output] = [signal(`S${Math.max(0, at - 1)}`), signal(`S${at}`)];
  const outs = `out_ports: {output: ${output}}`;
  if (at % 10 === 0) {
    return `query: {promql: {query_string: "sum(rate(m${at}_total[1m])) by (le)", ${outs}}}`;
  }
  switch (at % 5) {
    case 1:
      return `ema: {in_ports: {input: ${input}}, ${outs}, parameters: {ema_window: 60s, warmup_window: 10s}}`;
    case 2:
      return `decider: {operator: gt, in_ports: {lhs: ${input}, rhs: ${constant(at)}}, ${outs}, true_for: 10s}`;
    case 3:
      return `switcher: {in_ports: {switch: ${input}, on_signal: ${constant(1)}, off_signal: ${input}}, ${outs}}`;
    case 4:
      return `first_valid: {in_ports: {inputs: [${input}, ${constant(0)}]}, ${outs}}`;
    default:
      return `flow_control: {aimd_load_scheduler: {in_ports: {signal: ${input}, setpoint: ${constant(9)}}, out_ports: {observed_load_multiplier: ${output}}, parameters: {load_scheduler: {selectors: [{control_point: ingress}]}, gradient: {slope: -1}, alerter: {alert_name: a}}}}`;
  }
}

const components = Array.from({ length: COMPONENTS }, (_, at) => `    - ${component(at)}\n`);
const text = `circuit:\n  components:\n${components.join("")}`;
const [document] = readPolicies(text, "bench").documents;
if (document === undefined) throw new Error("wanted a policy");
const outcome = compilePolicy(document, options);
if (!outcome.ok) throw new Error(JSON.stringify(outcome.findings));
const leaves = outcome.policy.circuit?.leaves.length;
process.stdout.write(`${COMPONENTS} components, ${leaves} leaves, ${text.length} bytes\n`);

/** Prints wall time, and processor time, which other processes on the machine do not lengthen. */
function measure(what: string, run: () => unknown): void {
  for (let warm = 0; warm < WARM; warm++) run();
  const before = process.cpuUsage();
  const times = Array.from({ length: RUNS }, () => {
    const start = performance.now();
    run();
    return performance.now() - start;
  }).sort((left, right) => left - right);
  const { user, system } = process.cpuUsage(before);
  const median = (times[RUNS / 2] ?? 0).toFixed(1);
  const processor = ((user + system) / 1_000 / RUNS).toFixed(1);
  process.stdout.write(`${what.padEnd(20)} median ${median} ms, processor ${processor} ms\n`);
}

measure("read", () => readPolicies(text, "bench"));
measure("judge and compile", () => compilePolicy(document, options));
measure("all", () => {
  const [read] = readPolicies(text, "bench").documents;
  return read && compilePolicy(read, options);
});
