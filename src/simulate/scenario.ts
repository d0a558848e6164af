// A scenario: what happens to a service and its policy in virtual time, and what must hold. Read from YAML
// or JSON; every fault is named at once with its place.

import { type Finding, Report } from "#policy/finding.ts";
import { parse } from "#policy/read.ts";
import type { Tree } from "#policy/tree.ts";
import { MODEL_SERIES } from "./run/names.ts";
import { judgeSize } from "./scenario/bounds.ts";
import { type Expectation, expectation } from "./scenario/expectation.ts";
import type { Profile } from "./scenario/profile.ts";
import { profile } from "./scenario/profile.ts";
import type { Choice } from "./scenario/recording.ts";
import { type Served, served } from "./scenario/served.ts";
import {
  anyObject,
  checked,
  duration,
  labelValue,
  list,
  map,
  maybe,
  need,
  number,
  object,
  or,
  type Placed,
  placed,
  type Shape,
  text,
} from "./scenario/shape.ts";

/** A stretch of time with a name, ms; `until` is not part of it. */
export interface Window {
  readonly name: string;
  readonly from: number;
  readonly until: number;
}

/** A recorded series, its file not read yet. */
export interface RecordingRef extends Choice {
  readonly file: string;
}

/** What stands in for the answers to a query. */
export interface Script {
  /** The query's text, spaces aside; undefined names by component. */
  readonly query: string | undefined;
  readonly component: string | undefined;
  readonly policy: string | undefined;
  readonly source:
    | { readonly kind: "follows"; readonly profile: Profile }
    | { readonly kind: "by_label"; readonly profiles: ReadonlyMap<string, Profile> }
    | { readonly kind: "recording"; readonly of: RecordingRef };
}

/** Another dynamic configuration of a policy, from a moment on. */
export interface Change {
  readonly at: number;
  readonly policy: string | undefined;
  readonly values: Tree;
}

/** Lines that are drawn over each other. */
export interface Panel {
  readonly title: string;
  readonly series: readonly Placed<string>[];
}

export interface Scenario {
  readonly durationMs: number;
  readonly seed: number;
  /** How often meters are read, as a scrape would. */
  readonly sampleMs: number;
  readonly agentGroup: string;
  /** In order, without gaps and overlaps; at least one. */
  readonly phases: readonly Window[];
  readonly services: readonly Served[];
  readonly scripts: readonly Placed<Script>[];
  readonly changes: readonly Placed<Change>[];
  readonly expectations: readonly Placed<Expectation>[];
  readonly plot: readonly Panel[];
}

export interface ScenarioReading {
  /** Undefined when the text is at fault. */
  readonly scenario: Scenario | undefined;
  readonly findings: readonly Finding[];
}

/** Longer than anyone simulates, and still in bounded memory. */
const LONGEST_MS = 24 * 3_600_000;

const recording: Shape<RecordingRef> = object("a recording", {
  file: need(text()),
  column: maybe(text()),
  labels: or(map(labelValue), {}),
});

const script = checked(
  object("a series", {
    query: maybe(text()),
    component: maybe(text()),
    policy: maybe(text()),
    follows: maybe(profile()),
    by_label: maybe(map(profile())),
    recording: maybe(recording),
  }),
  (given, say) => {
    exactlyOne(given, ["query", "component"], say);
    exactlyOne(given, ["follows", "by_label", "recording"], say);
  },
);

const change = object("a change of dynamic configuration", {
  at: need(duration()),
  policy: maybe(text()),
  values: need(anyObject),
});

const panel = object("a panel", {
  title: or(text(), ""),
  series: need(list(placed(text()), true)),
});

const phase = object("a phase", { name: need(text()), until: need(duration({ positive: true })) });

const whole = checked(
  object("a scenario", {
    duration: need(duration({ positive: true })),
    seed: or(number({ min: 0, max: 2 ** 32 - 1, whole: true }), 1),
    sample_every: or(duration({ positive: true }), 1_000),
    agent_group: or(text(), "default"),
    phases: or(list(phase), []),
    services: or(list(served), []),
    series: or(list(placed(script)), []),
    dynamic_config: or(list(placed(change)), []),
    expect: or(list(placed(expectation)), []),
    plot: or(list(panel), []),
  }),
  (given, say) => {
    if (given.duration > LONGEST_MS) say(["duration"], "at most 24h", `${given.duration} ms`);
    let before = 0;
    for (const [at, { until }] of given.phases.entries()) {
      if (until <= before) say(["phases", at, "until"], `a time after ${before} ms`, `${until} ms`);
      if (until > given.duration)
        say(["phases", at, "until"], "a time within duration", "a later one");
      before = until;
    }
    unique(given.phases, "phases", say);
    unique(given.services, "services", say);
    judgeSize(given, Object.keys(MODEL_SERIES).length, say);
  },
);

type Say = (inner: readonly (string | number)[], wanted: string, got: string) => void;

function exactlyOne(given: object, keys: readonly string[], say: Say): void {
  const found = keys.filter((key) => Reflect.get(given, key) !== undefined);
  if (found.length !== 1) say([], `one out of ${keys.join(", ")}`, found.join(" and ") || "none");
}

function unique(all: readonly { readonly name: string }[], key: string, say: Say): void {
  const names = all.map(({ name }) => name);
  for (const [at, name] of names.entries()) {
    if (names.indexOf(name) < at) say([key, at, "name"], "each name once", `${name} again`);
  }
}

/** Files that recordings name are read by whoever asked; see `simulate`. */
export function readScenario(source: string): ScenarioReading {
  const report = new Report();
  const [root, second] = parse(source, report);
  const nothing = { line: 1, column: 1 };
  const got = second === undefined ? "no document" : "several";
  if (report.faults === 0 && (root === undefined || second !== undefined)) {
    const at = second?.at ?? nothing;
    report.refuse(at, [], "one scenario", got);
  }
  const given = root === undefined ? undefined : whole.read(root, [], report);
  const sound = given !== undefined && report.faults === 0;
  const { findings } = report;
  if (!sound) return { scenario: undefined, findings };
  return {
    findings,
    scenario: {
      durationMs: given.duration,
      seed: given.seed,
      sampleMs: given.sample_every,
      agentGroup: given.agent_group,
      phases: windowsOf(given.phases, given.duration),
      services: given.services,
      scripts: given.series.map((one) => ({ ...one, value: scriptOf(one.value) })),
      changes: given.dynamic_config,
      expectations: given.expect,
      plot: given.plot,
    },
  };
}

interface GivenScript {
  readonly query: string | undefined;
  readonly component: string | undefined;
  readonly policy: string | undefined;
  readonly follows: Profile | undefined;
  readonly by_label: Readonly<Record<string, Profile>> | undefined;
  readonly recording: RecordingRef | undefined;
}

function scriptOf({ query, component, policy, follows, by_label, recording }: GivenScript): Script {
  const names = { query, component, policy };
  if (recording !== undefined) return { ...names, source: { kind: "recording", of: recording } };
  if (follows !== undefined) return { ...names, source: { kind: "follows", profile: follows } };
  const profiles = new Map(Object.entries(by_label ?? {}));
  return { ...names, source: { kind: "by_label", profiles } };
}

function windowsOf(
  phases: readonly { readonly name: string; readonly until: number }[],
  durationMs: number,
): readonly Window[] {
  const windows: Window[] = [];
  for (const { name, until } of phases) {
    windows.push({ name, from: windows.at(-1)?.until ?? 0, until });
  }
  const last = windows.at(-1)?.until ?? 0;
  if (last < durationMs) {
    windows.push({ name: last === 0 ? "all" : "rest", from: last, until: durationMs });
  }
  return windows;
}

/** Files that the scenario wants read, as it names them. */
export function filesOf({ scripts }: Scenario): readonly string[] {
  return [
    ...new Set(
      scripts.flatMap(({ value: { source } }) =>
        source.kind === "recording" ? [source.of.file] : [],
      ),
    ),
  ];
}
