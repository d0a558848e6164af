// The status of the policies in force. It is computed when it is read, so it costs ticks no time and policies no memory.

import { listed } from "#base/text/listed.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { type StatusMessage, type StatusNode, timestamp } from "#runtime/status/status.ts";
import { decisionJson } from "#sync/publish/decision.ts";
import type { PolicyLoop } from "../loop/policy-loop.ts";

const STRUCT = "type.googleapis.com/google.protobuf.Struct";
const SIGNALS = "type.googleapis.com/aperture.policy.monitoring.v1.SignalMetricsInfo";

/** The sources of the status. */
interface Shown {
  readonly loops: () => ReadonlyMap<string, PolicyLoop>;
  /** The warnings about a policy. */
  readonly warnings: (name: string) => readonly PolicyWarning[];
  readonly wall: () => number;
}

/** Shows every policy as `key:<name>` below `policies`, the node of all policies. */
export function showPolicies(policies: StatusNode, shown: Shown): void {
  const { loops } = shown;
  policies.childrenWith("key", {
    names: () => loops().keys(),
    fill: (name, node) => {
      const loop = loops().get(name);
      if (loop !== undefined) fill(node, loop, shown);
      return loop !== undefined;
    },
  });
}

function fill(node: StatusNode, loop: PolicyLoop, { wall, warnings }: Shown): void {
  const { name, hash } = loop.version.policy;
  const at = loop.lastTick?.at ?? wall();
  node.reportWith(() => ({
    message: policyMessage(loop, warnings(name)),
    error: errorOf(loop),
    at,
  }));
  node.at("system", "fx_runner").ok("policy runner started", loop.loadedAt);
  const signals = node.at("circuit", "circuit_signals").at("policy", `${name}-${hash}`);
  signals.reportWith(() => ({ message: signalsMessage(loop), error: undefined, at }));
}

/** The most components that an error names; the message lists all. */
const MAX_NAMED = 10;

function errorOf(loop: PolicyLoop): string | undefined {
  const errors = [
    named("components failed in the last tick: ", failuresOf(loop)),
    named("limiters fail open, required signals are invalid: ", [...loop.diagnosis.failingOpen()]),
    named("limiters decide by on_failure, required signals are invalid: ", [
      ...loop.diagnosis.onFailureMode(),
    ]),
  ].filter((error) => error !== "");
  return errors.length === 0 ? undefined : errors.join("; ");
}

/** The faults of the last tick. */
function failuresOf({ diagnosis, lastTick }: PolicyLoop): readonly string[] {
  const now = [...diagnosis.faults].filter(([, { tick }]) => tick === lastTick?.number);
  return now.map(([id, { kind, message }]) => `${kind} ${id}: ${message}`);
}

function named(what: string, each: readonly string[]): string {
  return each.length === 0 ? "" : `${what}${listed(each, (one) => one, MAX_NAMED)}`;
}

function policyMessage(loop: PolicyLoop, warnings: readonly PolicyWarning[]): StatusMessage {
  const { version, lastTick, diagnosis } = loop;
  const { name, hash, circuit } = version.policy;
  const value = {
    policy_name: name,
    policy_hash: hash,
    origin: version.origin,
    evaluation_interval: circuit === undefined ? null : `${circuit.intervalMs / 1_000}s`,
    tick:
      lastTick === undefined
        ? null
        : {
            number: lastTick.number,
            timestamp: timestamp(lastTick.at),
            late_ms: Math.round(lastTick.lateMs * 1_000) / 1_000,
            skipped: loop.skipped,
          },
    warnings: warnings.map(({ code, path, text, why = "" }) => ({ code, path, text, why })),
    invalid_signals: [...diagnosis.invalidSignals()].map((signal) => ({
      sub_circuit_id: signal.circuit,
      signal_name: signal.name,
      why: signal.why,
    })),
    decisions: [...loop.decisions].map((decision) => ({
      kind: decision.kind,
      agent_groups: decision.agentGroups,
      ...decisionJson(version.policy, decision),
    })),
    faults: [...diagnosis.faults].map(([component_id, { kind, count, tick, message }]) => ({
      component_id,
      component: kind,
      count,
      message,
      last_tick: tick,
    })),
    dynamic_config_set_aside: Object.fromEntries(loop.refusedConfig),
  };
  return { "@type": STRUCT, value };
}

/** The signals of the circuit (control-plane specification, §6.3). An invalid one has the value NaN. */
function signalsMessage(loop: PolicyLoop): StatusMessage {
  const { name, hash } = loop.version.policy;
  const { circuit } = loop;
  const signal_reading = (circuit?.plan.signals ?? []).map((signal, at) => {
    const reading = circuit?.reading(at) ?? Number.NaN;
    const value = Number.isFinite(reading) ? reading : String(reading);
    return { signal_name: signal.name, valid: !Number.isNaN(reading), value };
  });
  return { "@type": SIGNALS, policy_name: name, policy_hash: hash, signal_reading };
}
