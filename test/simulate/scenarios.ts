// Helpers that run scenarios and policies from their texts in virtual time.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Finding } from "#policy/document/finding.ts";
import { findingLine } from "#policy/format.ts";
import { compileSet } from "#policy/set.ts";
import { readScenario, type Scenario } from "#simulate/scenario.ts";
import { type Simulation, simulate } from "#simulate/simulate.ts";

export function scenarioOf(text: string): Scenario {
  const { scenario, findings } = readScenario(text);
  assert.deepEqual(findings.map(findingLine), []);
  assert.ok(scenario !== undefined);
  return scenario;
}

/** Findings of a scenario's text by itself: `line:column: path: wanted …, got …`. */
export function faultsOf(text: string): readonly string[] {
  const { scenario, findings } = readScenario(text);
  assert.equal(scenario === undefined, findings.length > 0);
  return findings.map(placeless);
}

/** A finding as a line without the name of its text. */
function placeless(finding: Finding): string {
  return findingLine({ ...finding, source: "" }).slice(1);
}

export function policiesOf(texts: Readonly<Record<string, string>>) {
  const all = Object.entries(texts).map(([defaultName, text]) => ({
    source: `${defaultName}.yaml`,
    defaultName,
    text,
  }));
  const digest = (text: string) => createHash("sha256").update(text).digest("hex");
  const set = compileSet(all, { digest, queries: "prometheus" });
  assert.deepEqual(set.findings.map(findingLine), []);
  return set.policies;
}

export interface Tried {
  readonly policies?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** Findings of a scenario checked against its policies, in the same form. */
export async function clashesOf(text: string, { policies = {}, files = {} }: Tried) {
  const input = {
    policies: policiesOf(policies),
    scenario: scenarioOf(text),
    files: new Map(Object.entries(files)),
  };
  const simulated = await simulate(input);
  if (simulated.ok) return [];
  return simulated.findings.map(placeless);
}

export async function run(text: string, tried: Tried = {}): Promise<Simulation> {
  const { policies = {}, files = {} } = tried;
  const simulated = await simulate({
    policies: policiesOf(policies),
    scenario: scenarioOf(text),
    files: new Map(Object.entries(files)),
  });
  if (!simulated.ok) {
    assert.deepEqual(simulated.findings.map(findingLine), []);
    assert.fail("refused without a finding");
  }
  return simulated.simulation;
}
