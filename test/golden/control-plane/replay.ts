// Runs a recorded case on a plan, from the recording or from the compiler, and reports differences from the expected outputs.

import { formatSeconds } from "#base/duration.ts";
import { Circuit } from "#circuit/circuit.ts";
import type { Alert, QueryAnswer, QueryRequest } from "#circuit/component.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Json, JsonObject, RecordedCase, RecordedQuery, Ticks } from "./case.ts";
import { type Write, writesOf } from "./decisions.ts";
import { asRight, type Expected } from "./expect.ts";
import { HASH, numberOf, planOf } from "./plan.ts";
import { decisionTolerance, equal, tolerances } from "./tolerance.ts";

/** The first difference of each signal, decision key or query, one line each. Empty when all are equal. */
export type Differences = readonly string[];

interface Played {
  readonly columns: readonly (readonly number[])[];
  readonly writes: readonly Write[];
  readonly alerts: readonly { readonly tick: number; readonly alert: Alert }[];
  readonly asked: ReadonlyMap<string, ReadonlySet<number>>;
  readonly faults: readonly string[];
}

export function replay(
  recorded: RecordedCase,
  plan: CircuitPlan,
  expected: Expected = asRight(recorded),
): Differences {
  const { ticks } = recorded;
  if (ticks === undefined) return [];
  const played = play(recorded, plan, ticks);
  return [
    ...played.faults,
    ...signalDifferences(plan, played, expected, ticks),
    ...decisionDifferences(recorded, plan, played, expected, ticks),
    ...alertDifferences(recorded, plan, played, expected, ticks),
    ...queryDifferences(recorded, played, ticks),
  ];
}

/** All decisions that a case makes on its recorded circuit, in order. */
export function decisionsOf(recorded: RecordedCase): readonly Write[] {
  const { ticks } = recorded;
  return ticks === undefined ? [] : play(recorded, planOf(recorded), ticks).writes;
}

function play(recorded: RecordedCase, plan: CircuitPlan, ticks: Ticks): Played {
  const columns: number[][] = plan.signals.map(() => []);
  const writes: Write[] = [];
  const alerts: { tick: number; alert: Alert }[] = [];
  const asked = new Map<string, Set<number>>();
  const faults: string[] = [];
  let asks: QueryRequest[] = [];
  let tick = 0;
  const start = Date.parse(ticks.start);
  const outside = {
    ask: (ask: QueryRequest) => void asks.push(ask),
    decide: (decision: CircuitDecision) => void writes.push(...writesOf(decision, plan, tick)),
    alert: (alert: Alert) => void alerts.push({ tick, alert }),
    fault: (id: string, kind: string, thrown: unknown) =>
      void faults.push(`${kind} ${id} at tick ${tick}: ${thrown}`),
    ignoredOverride: () => undefined,
  };
  const configAt = (at: number) =>
    recorded.dynamicConfig.findLast(({ before_tick }) => before_tick === at);
  const circuit = new Circuit(plan, outside, configAt(1)?.config ?? undefined);
  const late: {
    readonly tick: number;
    readonly ask: QueryRequest;
    readonly answer: QueryAnswer;
  }[] = [];
  for (tick = 1; tick <= ticks.ticks; tick++) {
    const config = configAt(tick);
    if (config !== undefined && tick > 1) circuit.configure(config.config ?? undefined);
    for (const status of recorded.scaleStatus) {
      if (status.before_tick !== tick || status.wrong_hash === true) continue;
      const { configured_replicas: configured, actual_replicas: actual } = status;
      const replicas = status.remove === true ? undefined : { configured, actual };
      circuit.report(status.component_id, replicas);
    }
    for (const each of late) {
      if (each.tick === tick) circuit.answer(each.ask.componentId, each.answer);
    }
    circuit.tick(start + tick * plan.intervalMs);
    for (const [at, column] of columns.entries()) column.push(circuit.reading(at));
    for (const ask of asks) {
      const text = ask.query.replaceAll(plan.policyHash, HASH);
      asked.set(text, (asked.get(text) ?? new Set()).add(tick));
      const { answer, delay } = answerTo(recorded, text, tick, ask.byLabel);
      if (delay === 0) circuit.answer(ask.componentId, answer);
      else late.push({ tick: tick + delay + 1, ask, answer });
    }
    asks = [];
  }
  return { columns, writes, alerts, asked, faults };
}

function answerTo(
  { replies }: RecordedCase,
  query: string,
  tick: number,
  byLabel: string | undefined,
): { readonly answer: QueryAnswer; readonly delay: number } {
  const reply = replies[query]?.findLast(({ from }) => from <= tick)?.reply ?? "empty";
  if (typeof reply === "object" && reply !== null && "delay_ticks" in reply) {
    const { value, delay_ticks: delay } = reply as { value: Json; delay_ticks: number };
    return { answer: answerOf(value, byLabel), delay };
  }
  return { answer: answerOf(reply, byLabel), delay: 0 };
}

function answerOf(reply: Json, byLabel: string | undefined): QueryAnswer {
  const failed: QueryAnswer = { kind: "failed", why: "no single number" };
  if (reply === "empty" || reply === null) return failed;
  if (typeof reply !== "object") return { kind: "value", value: numberOf(reply) };
  const { scalar, vector, label, by_label: values } = reply as JsonObject;
  if (scalar !== undefined) return { kind: "value", value: numberOf(scalar) };
  if (byLabel !== undefined && label === byLabel) {
    const entries = Object.entries(values as JsonObject);
    return { kind: "by_label", values: new Map(entries.map(([k, v]) => [k, numberOf(v)])) };
  }
  if (!Array.isArray(vector) || vector.length !== 1) return failed;
  return { kind: "value", value: numberOf(vector[0] ?? null) };
}

function signalDifferences(
  plan: CircuitPlan,
  { columns }: Played,
  expected: Expected,
  ticks: Ticks,
): Differences {
  const names = plan.signals.map(({ circuit, name }) => `${circuit}/${name}`);
  const places = new Map(names.map((name, at) => [name, at]));
  const tolerance = tolerances(plan);
  const sameAs = aliases(plan);
  const all = { ...expected.signals, ...expected.corrected };
  return Object.entries(all).flatMap(([name, column]) => {
    const place = places.get(name);
    if (place === undefined) return [`${name}: no such signal`];
    const known = names.filter((_, at) => sameAs[at] === sameAs[place]);
    const corrected = known.find((each) => expected.corrected[each] !== undefined);
    const wanted = corrected === undefined ? column : (expected.corrected[corrected] ?? []);
    for (let tick = 1; tick <= ticks.ticks; tick++) {
      const counts = known.every((each) => expected.signal(each, tick));
      if (corrected === undefined && !counts) continue;
      const want = numberOf(wanted[tick - 1] ?? null);
      const got = columns[place]?.[tick - 1] ?? Number.NaN;
      if (!equal(want, got, tolerance[place] ?? 0)) {
        return [`${name} at tick ${tick}: wanted ${want}, got ${got}`];
      }
    }
    return [];
  });
}

/** For each signal, the index of its alias on the other side of a nested circuit's boundary. */
function aliases(plan: CircuitPlan): readonly number[] {
  const same = plan.signals.map((_, at) => at);
  for (const { kind, inputs, outputs } of plan.leaves) {
    const [wire] = inputs["signal"] ?? [];
    const inner = outputs["signal"];
    const boundary = kind === "nested_signal_egress" || kind === "nested_signal_ingress";
    if (!boundary || wire?.kind !== "signal" || wire.looped || inner === undefined) continue;
    const [from, to] = [same[inner], same[wire.signal] ?? 0];
    for (const [at, each] of same.entries()) if (each === from) same[at] = to;
  }
  return same;
}

function decisionDifferences(
  recorded: RecordedCase,
  plan: CircuitPlan,
  { writes }: Played,
  expected: Expected,
  { ticks, decisions = [] }: Ticks,
): Differences {
  const wanted = (recorded.right.decisions ?? decisions).flatMap((each) => {
    const value = each.op === "put" ? each.value : undefined;
    const length = (each.until_tick ?? each.tick) - each.tick + 1;
    return Array.from({ length }, (_, at) => ({ tick: each.tick + at, key: each.key, value }));
  });
  const tolerance = decisionTolerance(plan);
  const keys = new Set([...wanted, ...writes].map(({ key }) => key));
  return [...keys].flatMap((key) => {
    const want = statesOf(key, wanted, ticks);
    const got = statesOf(key, writes, ticks);
    for (let tick = 1; tick <= ticks; tick++) {
      const ignore = (member: string) => !expected.decision(member, tick);
      if (ignore("")) continue;
      if (!alike(want[tick - 1], got[tick - 1], tolerance, ignore)) {
        const shown = [want, got].map((each) => JSON.stringify(each[tick - 1] ?? null));
        return [`${key} at tick ${tick}: wanted ${shown[0]}, got ${shown[1]}`];
      }
    }
    return repeated(key, writes);
  });
}

/** The value of a key after each tick. */
function statesOf(
  key: string,
  writes: readonly Pick<Write, "tick" | "key" | "value">[],
  ticks: number,
): readonly (JsonObject | undefined)[] {
  const own = writes.filter((write) => write.key === key);
  return Array.from(
    { length: ticks },
    (_, at) => own.findLast(({ tick }) => tick <= at + 1)?.value,
  );
}

/** Checks that no value is written twice in a row. Decisions that contain a time always differ. */
function repeated(key: string, writes: readonly Write[]): Differences {
  const own = writes.filter((write) => write.key === key);
  const again = own.find((write, at) => {
    const before = own[at - 1];
    return before?.failure === write.failure && alike(before?.value, write.value, 0) && at > 0;
  });
  return again === undefined ? [] : [`${key} at tick ${again.tick}: written again unchanged`];
}

function alertDifferences(
  recorded: RecordedCase,
  plan: CircuitPlan,
  { alerts }: Played,
  expected: Expected,
  ticks: Ticks,
): Differences {
  const wanted = (recorded.right.alerts ?? ticks.alerts ?? [])
    .filter(({ labels }) => expected.alerts(labels["component_id"] ?? ""))
    .map((each) =>
      JSON.stringify([each.tick, sorted(each.labels), each.resolve_after, each.generator_url]),
    );
  const got = alerts
    .filter(({ alert }) => expected.alerts(alert.componentId))
    .map(({ tick, alert }) => {
      const labels = {
        alertname: alert.name,
        severity: alert.severity,
        alert_channels: alert.channels.join(","),
        policy_name: plan.policyName,
        type: "alerter",
        component_id: alert.componentId,
        ...Object.fromEntries(alert.labels),
      };
      const url = `http://HOSTNAME/${plan.policyName}/${alert.name}`;
      return JSON.stringify([tick, sorted(labels), formatSeconds(alert.resolveMs), url]);
    });
  const missing = wanted.find((each) => !got.includes(each));
  const extra = got.find((each) => !wanted.includes(each));
  if (missing !== undefined) return [`alert wanted: ${missing}`];
  if (extra !== undefined) return [`alert not wanted: ${extra}`];
  return wanted.length === got.length ? [] : [`${wanted.length} alerts wanted, got ${got.length}`];
}

function queryDifferences(recorded: RecordedCase, { asked }: Played, ticks: Ticks): Differences {
  // In the recorded system one slow answer delayed all other queries.
  const slow = Object.values(recorded.replies)
    .flat()
    .some(({ reply }) => isLate(reply));
  if (slow || ticks.queries === undefined) return [];
  return Object.entries(ticks.queries).flatMap(([query, when]) => {
    const wanted = String(turns(when));
    const got = String([...(asked.get(query) ?? [])]);
    return wanted === got ? [] : [`query ${query}: wanted at ticks ${wanted}, got ${got}`];
  });
}

function isLate(reply: Json): boolean {
  return typeof reply === "object" && reply !== null && "delay_ticks" in reply;
}

function turns({ at, first = 1, every = 1, count = 0 }: RecordedQuery): readonly number[] {
  return at ?? Array.from({ length: count }, (_, turn) => first + turn * every);
}

function sorted(labels: Readonly<Record<string, string>>) {
  return Object.entries(labels).sort(([left], [right]) => (left < right ? -1 : 1));
}

/** Compares two messages without the members that `ignore` names. */
function alike(
  wanted: Json | undefined,
  got: Json | undefined,
  tolerance: number,
  ignore: (member: string) => boolean = () => false,
): boolean {
  const isObject = (value: Json | undefined): value is JsonObject =>
    typeof value === "object" && value !== null;
  if (!isObject(wanted) || !isObject(got)) {
    if (wanted === undefined || got === undefined) return wanted === got;
    if (typeof wanted === "number" && typeof got === "number") return equal(wanted, got, tolerance);
    return wanted === got;
  }
  const keys = new Set([...Object.keys(wanted), ...Object.keys(got)]);
  return [...keys].every((key) => ignore(key) || alike(wanted[key], got[key], tolerance, ignore));
}
