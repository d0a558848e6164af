// Helpers that compile a text, for the tests of this room.

import { createHash } from "node:crypto";
import type { CompiledPolicy, CompileOptions } from "#policy/compiled.ts";
import type { Finding } from "#policy/document/finding.ts";
import { findingLine } from "#policy/format.ts";
import { type CompiledSet, compileSet } from "#policy/set.ts";

export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export const OPTIONS: CompileOptions = { digest, queries: "prometheus" };

/** Compiles a set of a single text. */
export function judged(text: string, defaultName = "p"): CompiledSet {
  return compileSet([{ source: `${defaultName}.yaml`, defaultName, text }], OPTIONS);
}

export function findings(text: string): readonly Finding[] {
  return judged(text).findings;
}

/** Every finding as a formatted line. */
export function lines(text: string, defaultName = "p"): string[] {
  return judged(text, defaultName).findings.map(findingLine);
}

/** The compiled policy of a text; throws with all findings when it is invalid. */
export function compiled(text: string, defaultName = "p"): CompiledPolicy {
  const { policies, findings } = judged(text, defaultName);
  const [policy] = policies;
  if (policy === undefined || findings.length > 0)
    throw new Error(lines(text, defaultName).join("\n"));
  return policy;
}

/** A bare policy with these components, each in YAML flow style on one line. */
export function circuit(...components: readonly string[]): string {
  return `circuit:\n  components:\n${components.map((each) => `    - ${each}\n`).join("")}`;
}

export const SELECTORS = "selectors: [{control_point: ingress}]";

/** A rate limiter with these in-ports. */
export function rateLimiter(ports: string, rest = "parameters: {interval: 1s}"): string {
  return `flow_control: {rate_limiter: {in_ports: {${ports}}, ${rest}, ${SELECTORS}}}`;
}

export const CONSTANT_PORTS =
  "bucket_capacity: {constant_signal: {value: 5}}, fill_amount: {constant_signal: {value: 1}}";

/**
 * Ratio of the processor time for four times the input: 4 for linear time, 16 for quadratic time. It is the minimum
 * of several rounds, since other processes can only add time; one round suffices when it is low.
 */
export function growth(make: (size: number) => string, size: number): number {
  const small = make(size);
  const large = make(4 * size);
  let least = Number.POSITIVE_INFINITY;
  judged(small);
  for (let round = 0; round < 6 && least > 8; round++) {
    const before = spent(small);
    least = Math.min(least, spent(large) / before);
  }
  return least;
}

/** Processor time, µs. */
function spent(text: string): number {
  const start = process.cpuUsage();
  judged(text);
  const { user, system } = process.cpuUsage(start);
  return user + system;
}

export function podScaler(replicas: string, other = "agent_group: default"): string {
  const changed = other.split(", ").map((part) => part.split(":")[0]);
  const object = [
    "namespace: n",
    "api_version: apps/v1",
    "kind: Deployment",
    "name: web-1.a",
  ].filter((part) => !changed.includes(part.split(":")[0]));
  return `auto_scale: {pod_scaler: {in_ports: {replicas: {constant_signal: {value: ${replicas}}}}, kubernetes_object_selector: {${[...object, other].join(", ")}}}}`;
}

export function scheduling(scheduler: string): string {
  return `flow_control: {concurrency_scheduler: {in_ports: {max_concurrency: {constant_signal: {value: 5}}}, concurrency_limiter: {max_inflight_duration: 1s}, ${SELECTORS}, scheduler: {${scheduler}}}}`;
}
