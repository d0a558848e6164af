// What a recorded case must give: its columns, corrected where it says how, left out where it says that they
// must not be copied. That is said in words for people; these are the words that are understood.

import type { Column, RecordedCase } from "./case.ts";

export interface Expected {
  readonly signals: Readonly<Record<string, Column>>;
  /** Columns that count at every tick, whatever else is said of their signals. */
  readonly corrected: Readonly<Record<string, Column>>;
  /** Is this reading to be compared? */
  signal(name: string, tick: number): boolean;
  /** Is this member of a decision to be compared, such as `accept_percentage`? "" is the whole of it. */
  decision(member: string, tick: number): boolean;
  /** Are this component's alerts to be compared? */
  alerts(componentId: string): boolean;
}

/** What recordings forget to say must not be copied. */
const FORGOTTEN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // A dynamic null is no value: the policy's own is in force, not false.
  "bool-variable-dynamic-config": { "root/B2": "tick 18" },
  // The slow answer holds the integrator up from the tick after it was asked for.
  "promql-slow-batch": { "root/I": "from tick 5" },
};

/** As recorded, faults included: for circuits whose very wiring is the recorded fault. */
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
    const said = words[what];
    return !nothing && (said === undefined || !ticksIn(said, columns)(tick));
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

/** The ticks that words such as "tick 5 and from tick 10" or "ticks at which AT_END is 1" mean. */
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
  // Other words, as "all": nothing of it.
  return parts.length === 0 ? () => true : (tick) => parts.some((part) => part(tick));
}
