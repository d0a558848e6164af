// A scenario describes what happens to services and policies in virtual time, and what is expected. It is read from
// YAML or JSON; all faults are reported at once, each with its position.

import { type Finding, Report } from "#policy/document/finding.ts";
import { parse } from "#policy/document/read.ts";
import { START, type Tree } from "#policy/document/tree.ts";
import { MODEL_SERIES } from "./run/names.ts";
import { checkSize } from "./scenario/bounds.ts";
import { type Expectation, expectation } from "./scenario/expectation.ts";
import type { Profile } from "./scenario/profile.ts";
import { profile } from "./scenario/profile.ts";
import type { Choice } from "./scenario/recording.ts";
import {
  anyObject,
  checked,
  duration,
  type Located,
  labelValue,
  list,
  located,
  map,
  mapped,
  number,
  object,
  optional,
  type Refuse,
  required,
  type Schema,
  text,
  withDefault,
} from "./scenario/schema.ts";
import { type ServiceSpec, serviceSpec } from "./scenario/service.ts";

/** A named time window in ms; `until` is excluded. */
export interface TimeWindow {
  readonly name: string;
  readonly from: number;
  readonly until: number;
}

/** A reference to a recorded series, whose file is not read yet. */
export interface RecordingRef extends Choice {
  readonly file: string;
}

/** Scripted answers to a query. */
export interface Script {
  /** The query, up to white space; undefined when the component is named instead. */
  readonly query: string | undefined;
  readonly component: string | undefined;
  readonly policy: string | undefined;
  readonly source:
    | { readonly kind: "follows"; readonly profile: Profile }
    | { readonly kind: "by_label"; readonly profiles: ReadonlyMap<string, Profile> }
    | { readonly kind: "recording"; readonly of: RecordingRef };
}

/** A change of the dynamic configuration at a time. */
export interface Change {
  readonly at: number;
  readonly policy: string | undefined;
  readonly values: Tree;
}

/** Series that are drawn in one plot. */
export interface Panel {
  readonly title: string;
  readonly series: readonly Located<string>[];
}

export interface Scenario {
  /** The text of the scenario, as messages name it. */
  readonly source: string;
  readonly durationMs: number;
  readonly seed: number;
  /** Interval in which metrics are scraped. */
  readonly sampleMs: number;
  readonly agentGroup: string;
  /** In order, without gaps or overlaps; at least one. */
  readonly phases: readonly TimeWindow[];
  readonly services: readonly ServiceSpec[];
  readonly scripts: readonly Located<Script>[];
  readonly changes: readonly Located<Change>[];
  readonly expectations: readonly Located<Expectation>[];
  readonly plot: readonly Panel[];
}

export interface ScenarioReading {
  /** Undefined when the text is invalid. */
  readonly scenario: Scenario | undefined;
  readonly findings: readonly Finding[];
}

/** Maximum duration of a run, which keeps memory bounded. */
const MAX_DURATION_MS = 24 * 3_600_000;

const recording: Schema<RecordingRef> = object("a recording", {
  file: required(text()),
  column: optional(text()),
  labels: withDefault(map(labelValue), {}),
});

const givenScript = checked(
  object("a series", {
    query: optional(text()),
    component: optional(text()),
    policy: optional(text()),
    follows: optional(
      mapped(profile(), (followed) => ({ kind: "follows", profile: followed }) as const),
    ),
    by_label: optional(
      mapped(map(profile()), (profiles) => {
        return { kind: "by_label", profiles: new Map(Object.entries(profiles)) } as const;
      }),
    ),
    recording: optional(mapped(recording, (of) => ({ kind: "recording", of }) as const)),
  }),
  (given, say) => {
    exactlyOne(given, ["query", "component"], say);
    exactlyOne(given, ["follows", "by_label", "recording"], say);
  },
);

const script: Schema<Script> = {
  parse(tree, path, report) {
    const given = givenScript.parse(tree, path, report);
    const source = given?.follows ?? given?.by_label ?? given?.recording;
    if (given === undefined || source === undefined) return undefined;
    const { query, component, policy } = given;
    return { query, component, policy, source };
  },
};

const change = object("a change of dynamic configuration", {
  at: required(duration()),
  policy: optional(text()),
  values: required(anyObject),
});

const panel = object("a panel", {
  title: withDefault(text(), ""),
  series: required(list(located(text()), true)),
});

const phase = object("a phase", {
  name: required(text()),
  until: required(duration({ positive: true })),
});

const whole = checked(
  object("a scenario", {
    duration: required(duration({ positive: true })),
    seed: withDefault(number({ min: 0, max: 2 ** 32 - 1, whole: true }), 1),
    sample_every: withDefault(duration({ positive: true }), 1_000),
    agent_group: optional(text()),
    phases: withDefault(list(phase), []),
    services: withDefault(list(serviceSpec), []),
    series: withDefault(list(located(script)), []),
    dynamic_config: withDefault(list(located(change)), []),
    expect: withDefault(list(located(expectation)), []),
    plot: withDefault(list(panel), []),
  }),
  (given, say) => {
    if (given.duration > MAX_DURATION_MS) say(["duration"], "at most 24h", `${given.duration} ms`);
    let before = 0;
    for (const [at, { until }] of given.phases.entries()) {
      if (until <= before) say(["phases", at, "until"], `a time after ${before} ms`, `${until} ms`);
      if (until > given.duration)
        say(["phases", at, "until"], "a time within duration", "a later one");
      before = until;
    }
    unique(given.phases, "phases", say);
    unique(given.services, "services", say);
    checkSize(given, Object.keys(MODEL_SERIES).length, say);
  },
);

function exactlyOne(given: object, keys: readonly string[], say: Refuse): void {
  const found = keys.filter((key) => Reflect.get(given, key) !== undefined);
  if (found.length !== 1) say([], `one out of ${keys.join(", ")}`, found.join(" and ") || "none");
}

function unique(all: readonly { readonly name: string }[], key: string, say: Refuse): void {
  const names = all.map(({ name }) => name);
  for (const [at, name] of names.entries()) {
    if (names.indexOf(name) < at) say([key, at, "name"], "each name once", `${name} twice`);
  }
}

/**
 * Does not read the files of recordings: the caller passes their texts to `simulate`. `agentGroup` is the group of the
 * agent unless the scenario names one; `source` names the text in findings.
 */
export function readScenario(
  text: string,
  agentGroup = "default",
  source = "scenario",
): ScenarioReading {
  const report = new Report(source);
  const [root, second] = parse(text, report);
  const got = second === undefined ? "no document" : "several";
  if (report.faults === 0 && (root === undefined || second !== undefined)) {
    const at = second?.at ?? START;
    report.refuse(at, [], "one scenario", got);
  }
  const given = root === undefined ? undefined : whole.parse(root, [], report);
  const valid = given !== undefined && report.faults === 0;
  const { findings } = report;
  if (!valid) return { scenario: undefined, findings };
  return {
    findings,
    scenario: {
      source,
      durationMs: given.duration,
      seed: given.seed,
      sampleMs: given.sample_every,
      agentGroup: given.agent_group ?? agentGroup,
      phases: windowsOf(given.phases, given.duration),
      services: given.services,
      scripts: given.series,
      changes: given.dynamic_config,
      expectations: given.expect,
      plot: given.plot,
    },
  };
}

function windowsOf(
  phases: readonly { readonly name: string; readonly until: number }[],
  durationMs: number,
): readonly TimeWindow[] {
  const windows: TimeWindow[] = [];
  for (const { name, until } of phases) {
    windows.push({ name, from: windows.at(-1)?.until ?? 0, until });
  }
  const last = windows.at(-1)?.until ?? 0;
  if (last < durationMs) {
    windows.push({ name: last === 0 ? "all" : "rest", from: last, until: durationMs });
  }
  return windows;
}

/** Names of the files that the scenario needs. */
export function filesOf({ scripts }: Scenario): readonly string[] {
  const files = scripts.flatMap(({ value: { source } }) =>
    source.kind === "recording" ? [source.of.file] : [],
  );
  return [...new Set(files)];
}
