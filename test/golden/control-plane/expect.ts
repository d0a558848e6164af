// The expected outputs of a recorded case: its columns, corrected where `right.json` says how, and without the readings
// that `case.json` describes as faults. Those descriptions are English; this file parses the phrases that they use.

import type { Column, RecordedCase } from "./case.ts";

export interface Expected {
  readonly signals: Readonly<Record<string, Column>>;
  /** Corrected columns, which are compared at every tick. */
  readonly corrected: Readonly<Record<string, Column>>;
  /** True if to compare this reading. */
  signal(name: string, tick: number): boolean;
  /** True if to compare this member of a decision, such as `accept_percentage`. "" is the whole decision. */
  decision(member: string, tick: number): boolean;
  /** True if to compare this component's alerts. */
  alerts(componentId: string): boolean;
}

/** Faults that the recordings do not mention, in the same words. */
const FORGOTTEN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // A dynamic null is no value: the policy's own value applies, not false.
  "bool-variable-dynamic-config": { "root/B2": "tick 18" },
  // The late answer delays the integrator from the tick after its query on.
  "promql-slow-batch": { "root/I": "from tick 5" },
};

/** Expects the recording with its faults, for circuits whose wiring is the fault. */
export function asRecorded({ ticks }: RecordedCase): Expected {
  const always = () => true;
  return {
    signals: ticks?.signals ?? {},
    corrected: {},
    signal: always,
    decision: always,
    alerts: always,
  };
}

export function asRight(recorded: RecordedCase): Expected {
  const { ticks, right } = recorded;
  const words = { ...recorded.doNotCopy, ...FORGOTTEN[recorded.name] };
  const columns = ticks?.signals ?? {};
  const nothing = /^all\b/.test(words["*"] ?? "");
  const kept = (what: string, tick: number) => {
    const description = words[what];
    return !nothing && (description === undefined || !ticksIn(description, columns)(tick));
  };
  const members: readonly string[] = words["decisions"]?.match(/\b[a-z]+(?:_[a-z]+)+\b/g) ?? [];
  const alerting = words["alerts"];
  const silent: readonly string[] = alerting?.match(/root(?:\.\d+)+/g) ?? [];
  return {
    signals: columns,
    corrected: right.signals ?? {},
    signal: kept,
    decision: (member, tick) => {
      if (right.decisions !== undefined) return true;
      const meant = members.length === 0 || members.includes(member);
      return meant ? kept("decisions", tick) : !nothing;
    },
    alerts: (componentId) => {
      if (right.alerts !== undefined) return true;
      if (nothing || (alerting !== undefined && silent.length === 0)) return false;
      return !silent.includes(componentId);
    },
  };
}

/** Parses phrases such as "tick 5 and from tick 10" or "ticks at which AT_END is 1". */
function ticksIn(
  words: string,
  columns: Readonly<Record<string, Column>>,
): (tick: number) => boolean {
  const parts: ((tick: number) => boolean)[] = [];
  for (const [, from] of words.matchAll(/from tick (\d+)/g)) {
    parts.push((tick) => tick >= Number(from));
  }
  const rest = words.replaceAll(/from tick \d+/g, "");
  for (const [, numbers = ""] of rest.matchAll(/ticks? ((?:\d+(?:-\d+)?(?:, | and )?)+)/g)) {
    for (const [, first, last = first] of numbers.matchAll(/(\d+)(?:-(\d+))?/g)) {
      parts.push((tick) => tick >= Number(first) && tick <= Number(last));
    }
  }
  for (const [, signal, value] of rest.matchAll(/(\S+) is (-?\d+)/g)) {
    const column = columns[`root/${signal}`] ?? [];
    parts.push((tick) => column[tick - 1] === Number(value));
  }
  // Any other phrase, such as "all", means every tick.
  return parts.length === 0 ? () => true : (tick) => parts.some((part) => part(tick));
}
