// The checkpoint of one policy: the state of its circuit as a JSON document in the store, from which the next leader continues.
// Components and signals are identified by digests of their identities, so an edited policy keeps all that still fits, as
// in a running controller.

import { Fault } from "#base/fault.ts";
import { actuatorsOf, decisionId } from "#circuit/actuators.ts";
import { type Circuit, writersIn } from "#circuit/circuit.ts";
import type { ComponentState } from "#circuit/component.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Restored } from "#circuit/runner.ts";
import { sha256 } from "../digest.ts";

/** Version of the format. Readers ignore other versions. */
const VERSION = 1;

/** Most bytes of states in one checkpoint. Beyond that the largest states are left out, and their components start afresh. */
export const MAX_STATE_BYTES = 256 * 1024;

type Json = number | string | boolean | readonly Json[] | { readonly [name: string]: Json };

interface Content {
  readonly interval_ms: number;
  /** States of components, by the digest of their identity. */
  readonly states: Readonly<Record<string, Json>>;
  /**
   * Values of the signals that components read in the next tick, by the digest of the writing component's port and
   * identity.
   */
  readonly readings: Readonly<Record<string, Json>>;
  /** The last decisions, by the digest of the actuator's identity, because some kinds do not decide in the first tick. */
  readonly decisions: Readonly<Record<string, Json>>;
}

interface Document {
  readonly version: number;
  /** Unix ms. */
  readonly saved_at: number;
  /** Number of ticks so far. */
  readonly ticks: number;
  /** Digest of the JSON text of `circuit`. */
  readonly checksum: string;
  readonly circuit: Content;
}

export interface Checkpoint {
  /** Changes with everything in the state except the number of ticks. */
  readonly checksum: string;
  /** Ids of components whose state is too large. */
  readonly omitted: readonly string[];
  /** The value in the store. */
  bytes(savedAt: number): Uint8Array;
}

/** Copies the present state of a circuit. */
export function checkpointOf(circuit: Circuit, decisions: Iterable<CircuitDecision>): Checkpoint {
  const { states, omitted } = statesOf(circuit);
  const content: Content = {
    interval_ms: circuit.plan.intervalMs,
    states,
    readings: readingsOf(circuit),
    decisions: decisionsOf(circuit.plan, decisions),
  };
  const text = JSON.stringify(content);
  const [checksum, ticks] = [shortDigest(text), circuit.ticks];
  return {
    checksum,
    omitted,
    bytes: (savedAt) => {
      const head = JSON.stringify({ version: VERSION, saved_at: savedAt, ticks, checksum });
      return new TextEncoder().encode(`${head.slice(0, -1)},"circuit":${text}}`);
    },
  };
}

/**
 * Reads a checkpoint for a plan, possibly of another version of the policy.
 * @throws Fault for a value that is not a checkpoint, is corrupt, or has another version
 */
export function readCheckpoint(
  bytes: Uint8Array,
  plan: CircuitPlan,
): Restored & { readonly savedAt: number } {
  const { version, saved_at: savedAt, ticks, checksum, circuit } = documentIn(bytes);
  if (version !== VERSION)
    throw invalid(`wanted version ${VERSION}, got ${JSON.stringify(version) ?? "none"}`);
  if (typeof circuit !== "object" || shortDigest(JSON.stringify(circuit)) !== checksum)
    throw invalid("its content does not match its checksum");
  if (!(Number.isSafeInteger(ticks) && ticks >= 0)) throw invalid("it has no number of ticks");
  if (!Number.isFinite(savedAt)) throw invalid("it has no time");
  const states = new Map<string, ComponentState>();
  for (const { identity } of plan.leaves) {
    const state = circuit.states[shortDigest(identity)];
    if (state !== undefined) states.set(identity, fromJson(state) as ComponentState);
  }
  const written = new Map<string, number>();
  for (const [writer] of writersIn(plan)) {
    const reading = circuit.readings[shortDigest(writer)];
    if (reading !== undefined) written.set(writer, Number(fromJson(reading)));
  }
  return {
    savedAt,
    circuit: { intervalMs: circuit.interval_ms, ticks, states, written, named: new Map() },
    decisions: circuit.interval_ms === plan.intervalMs ? decisionsIn(circuit, plan) : [],
  };
}

function documentIn(bytes: Uint8Array): Document {
  try {
    const document: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (typeof document === "object" && document !== null) return document as Document;
  } catch {
    // Reported below.
  }
  throw invalid("it is not a JSON object");
}

function invalid(why: string): Fault {
  return new Fault("DATA_LOSS", why);
}

function statesOf(circuit: Circuit): Pick<Checkpoint, "omitted"> & Pick<Content, "states"> {
  const states: Record<string, Json> = {};
  const omitted: string[] = [];
  const { states: own } = circuit.memory();
  const all = circuit.plan.leaves.flatMap(({ id, identity }) => {
    const state = own.get(identity);
    if (state === undefined) return [];
    const json = toJson(state);
    return [{ id, identity, json, size: JSON.stringify(json).length }];
  });
  let left = MAX_STATE_BYTES;
  for (const { id, identity, json, size } of all.sort((a, b) => a.size - b.size)) {
    left -= size;
    if (left < 0) omitted.push(id);
    else states[shortDigest(identity)] = json;
  }
  return { states, omitted };
}

function readingsOf(circuit: Circuit): Content["readings"] {
  const { leaves } = circuit.plan;
  const wires = leaves.flatMap(({ inputs }) => Object.values(inputs).flat());
  const looped = new Set(
    wires.flatMap((wire) => (wire.kind === "signal" && wire.looped ? [wire.signal] : [])),
  );
  if (looped.size === 0) return {};
  const readings: Record<string, Json> = {};
  for (const [writer, signal] of writersIn(circuit.plan))
    if (looped.has(signal)) readings[shortDigest(writer)] = toJson(circuit.reading(signal));
  return readings;
}

function decisionsOf(
  plan: CircuitPlan,
  decisions: Iterable<CircuitDecision>,
): Content["decisions"] {
  const byId = new Map([...decisions].map((decision) => [decisionId(decision), decision]));
  return Object.fromEntries(
    actuatorsOf(plan).flatMap(({ key, leaf }) => {
      const decision = byId.get(key);
      return decision === undefined ? [] : [[shortDigest(leaf.identity), toJson(decision)]];
    }),
  );
}

function decisionsIn({ decisions }: Content, plan: CircuitPlan): readonly CircuitDecision[] {
  return actuatorsOf(plan).flatMap(({ componentId, agentGroups, leaf }) => {
    const json = decisions[shortDigest(leaf.identity)];
    if (json === undefined) return [];
    return [{ ...(fromJson(json) as CircuitDecision), componentId, agentGroups }];
  });
}

/** Encodes values without a JSON form as objects: `{"$number": "NaN"}` and `{"$map": {…}}`. Omits undefined fields. */
function toJson(value: unknown): Json {
  if (typeof value === "number") {
    if (Object.is(value, -0)) return { $number: "-0" };
    return Number.isFinite(value) ? value : { $number: String(value) };
  }
  if (value instanceof Map) return { $map: toJson(Object.fromEntries(value)) };
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== "object" || value === null) return value as Json;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(fields.map(([name, field]) => [name, toJson(field)]));
}

function fromJson(json: Json): unknown {
  if (Array.isArray(json)) return json.map(fromJson);
  if (typeof json !== "object") return json;
  const fields = json as Readonly<Record<string, Json>>;
  const { $number, $map } = fields;
  if ($number !== undefined) return Number($number);
  const entries = Object.entries($map ?? fields).map(([name, field]) => [name, fromJson(field)]);
  return $map === undefined ? Object.fromEntries(entries) : new Map(entries as [string, unknown][]);
}

/** 96 bits, far more than a policy's few thousand components need. */
function shortDigest(text: string): string {
  return sha256(text).slice(0, 24);
}
