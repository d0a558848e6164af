// Short ways to judge a text in the tests of this room.

import { createHash } from "node:crypto";
import type { CompiledPolicy, CompileOptions } from "#policy/compiled.ts";
import type { Finding, Notice } from "#policy/finding.ts";
import { findingLine } from "#policy/report.ts";
import { compileSet, type PolicySet } from "#policy/set.ts";

export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export const OPTIONS: CompileOptions = { digest, queries: "prometheus" };

/** One text as the only one of a set. */
export function judged(text: string, stem = "p"): PolicySet {
  return compileSet([{ source: `${stem}.yaml`, stem, text }], OPTIONS);
}

export function findings(text: string): readonly Finding[] {
  return judged(text).findings.map(({ of }) => of);
}

/** Every finding as people see it. */
export function lines(text: string, stem = "p"): string[] {
  return judged(text, stem).findings.map(findingLine);
}

interface Good extends CompiledPolicy {
  readonly warnings: readonly Notice[];
}

/** The one good policy of a text; its findings are the message when it is not good. */
export function compiled(text: string, stem = "p"): Good {
  const { policies, findings, warnings } = judged(text, stem);
  const [policy] = policies;
  if (policy === undefined || findings.length > 0) throw new Error(lines(text, stem).join("\n"));
  return { ...policy.of, warnings: warnings.map(({ of }) => of) };
}

/** A bare policy out of components, each a line of YAML flow style. */
export function circuit(...components: readonly string[]): string {
  return `circuit:\n  components:\n${components.map((each) => `    - ${each}\n`).join("")}`;
}

export const SELECTORS = "selectors: [{control_point: ingress}]";

/** A rate limiter whose ports are `capacity`, `fill` and whatever else is given. */
export function rateLimiter(ports: string, rest = "parameters: {interval: 1s}"): string {
  return `flow_control: {rate_limiter: {in_ports: {${ports}}, ${rest}, ${SELECTORS}}}`;
}

export const CONSTANT_PORTS =
  "bucket_capacity: {constant_signal: {value: 5}}, fill_amount: {constant_signal: {value: 1}}";

/**
 * How much longer four times the input takes: 4 where time goes with the input, 16 with its square. The
 * least of some rounds, since neighbours on the machine only ever add; one is enough when it is low.
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

/** Time on the processor. */
function spent(text: string): number {
  const start = process.cpuUsage();
  judged(text);
  const { user, system } = process.cpuUsage(start);
  return user + system;
}
