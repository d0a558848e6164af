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

/** Components that failed in the last tick. Those of earlier ticks are told, but are over. */
function troubleOf({ faults, last }: Loop): string | undefined {
  const now = [...faults].filter(([, { tick }]) => tick === last?.number);
  if (now.length === 0) return undefined;
  const each = now.map(([id, { kind, message }]) => `${kind} ${id}: ${message}`);
  return `components failed in the last tick: ${each.join("; ")}`;
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
