// What the status tree says of a policy in force. Everything is computed when somebody looks: a tick pays
// nothing for it.

import { type StatusMessage, type StatusNode, timestamp } from "#host/status.ts";
import { decisionJson } from "./decision-json.ts";
import type { Loop } from "./loop.ts";

const STRUCT = "type.googleapis.com/google.protobuf.Struct";
const SIGNALS = "type.googleapis.com/aperture.policy.monitoring.v1.SignalMetricsInfo";

/** `policies` is the node of all of them: this one stands below it as `key:<name>`. */
export function showPolicy(policies: StatusNode, loop: Loop, wall: () => number): void {
  const { name, hash } = loop.version.policy;
  policies.remove("key", name);
  const node = policies.at("key", name);
  const at = () => loop.last?.at ?? wall();
  node.tells(() => ({ message: policyMessage(loop), error: troubleOf(loop), at: at() }));
  node.at("system", "fx_runner").ok("policy runner started");
  const signals = node.at("circuit", "circuit_signals").at("policy", `${name}-${hash}`);
  signals.tells(() => ({ message: signalsMessage(loop), error: undefined, at: at() }));
}

/** What is named in one error. The message tells of all. */
const MOST_NAMED = 10;

function troubleOf(loop: Loop): string | undefined {
  const troubles = [
    named("components failed in the last tick: ", failuresOf(loop)),
    named("limiters let everything pass for want of numbers: ", [...loop.starved()]),
  ].filter((trouble) => trouble !== "");
  return troubles.length === 0 ? undefined : troubles.join("; ");
}

/** Those of earlier ticks are told, but are over. */
function failuresOf({ faults, last }: Loop): readonly string[] {
  const now = [...faults].filter(([, { tick }]) => tick === last?.number);
  return now.map(([id, { kind, message }]) => `${kind} ${id}: ${message}`);
}

function named(what: string, each: readonly string[]): string {
  if (each.length === 0) return "";
  const more = each.length > MOST_NAMED ? `; and ${each.length - MOST_NAMED} more` : "";
  return `${what}${each.slice(0, MOST_NAMED).join("; ")}${more}`;
}

function policyMessage(loop: Loop): StatusMessage {
  const { version, last } = loop;
  const { name, hash, circuit } = version.policy;
  const value = {
    policy_name: name,
    policy_hash: hash,
    origin: version.origin,
    evaluation_interval: circuit === undefined ? null : `${circuit.intervalMs / 1_000}s`,
    tick:
      last === undefined
        ? null
        : {
            number: last.number,
            timestamp: timestamp(last.at),
            late_ms: Math.round(last.lateMs * 1_000) / 1_000,
            skipped: loop.skipped,
          },
    invalid_signals: [...loop.invalid()].map((signal) => ({
      sub_circuit_id: signal.circuit,
      signal_name: signal.name,
      why: signal.why,
    })),
    decisions: [...loop.decisions].map((decision) => ({
      kind: decision.kind,
      agent_groups: decision.agentGroups,
      ...decisionJson(version.policy, decision),
    })),
    faults: [...loop.faults].map(([component_id, { kind, count, tick, message }]) => ({
      ...{ component_id, component: kind, count, message },
      last_tick: tick,
    })),
    dynamic_config_set_aside: Object.fromEntries(loop.setAside),
  };
  return { "@type": STRUCT, value };
}

/** §6.3. Invalid readings say so by `valid`, and as a number by NaN. */
function signalsMessage(loop: Loop): StatusMessage {
  const { name, hash } = loop.version.policy;
  const { circuit } = loop;
  const signal_reading = (circuit?.plan.signals ?? []).map((signal, at) => {
    const reading = circuit?.reading(at) ?? Number.NaN;
    const value = Number.isFinite(reading) ? reading : String(reading);
    return { signal_name: signal.name, valid: !Number.isNaN(reading), value };
  });
  return { "@type": SIGNALS, policy_name: name, policy_hash: hash, signal_reading };
}
