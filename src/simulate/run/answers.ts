// Who answers the queries of a policy: what the scenario writes for them, or else the own evaluator over the
// meters of the run.

import { Fault } from "#base/fault.ts";
import type { Answer, Ask } from "#circuit/component.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import { parse } from "#promql/parse.ts";
import { print } from "#promql/print.ts";
import { type Measure, numberOf, numbersBy } from "#promql/result.ts";
import type { Profile } from "../scenario/profile.ts";
import { readRecording } from "../scenario/recording.ts";
import type { Script } from "../scenario.ts";

/** A query of a policy and the component that asks it. */
export interface Question {
  readonly policy: string;
  readonly component: string;
  readonly query: string;
}

export function questionsOf({ policyName, leaves }: CircuitPlan): readonly Question[] {
  return leaves.flatMap((leaf) => {
    const query =
      leaf.kind === "promql"
        ? leaf.config.query_string
        : leaf.kind === "load_actuator"
          ? leaf.config.tokens_query
          : "";
    return query === "" ? [] : [{ policy: policyName, component: leaf.id, query }];
  });
}

export function isFor(script: Script, question: Question): boolean {
  if (script.policy !== undefined && script.policy !== question.policy) return false;
  if (script.component !== undefined) return script.component === question.component;
  return normal(script.query ?? "") === normal(question.query);
}

/** Texts that mean the same query are one; what is no query stands for itself. */
function normal(query: string): string {
  try {
    return print(parse(query));
  } catch {
    return query.replaceAll(/\s+/g, " ").trim();
  }
}

/** Gives answers at a moment of the run, ms. */
export type Scripted = (at: number) => Answer;

/** @throws Fault INVALID_ARGUMENT when the recording cannot be read. */
export function scripted({ source }: Script, files: ReadonlyMap<string, string>): Scripted {
  switch (source.kind) {
    case "follows":
      return following(source.profile);
    case "by_label":
      return (at) => ({
        kind: "by_label",
        values: new Map([...source.profiles].map(([label, profile]) => [label, profile.at(at)])),
      });
    case "recording": {
      const text = files.get(source.of.file);
      if (text === undefined) {
        throw new Fault("INVALID_ARGUMENT", "wanted the file's text, got nothing");
      }
      return following(readRecording(text, source.of));
    }
  }
}

function following(profile: Profile): Scripted {
  return (at) => ({ kind: "value", value: profile.at(at) });
}

const NEVER = new AbortController().signal;

/** As the controller asks. */
export async function measured(measure: Measure, ask: Ask): Promise<Answer> {
  try {
    const result = await measure.query(ask.query, ask.at, NEVER);
    if (ask.byLabel === undefined) {
      const value = numberOf(result);
      return typeof value === "number"
        ? { kind: "value", value }
        : { kind: "failed", why: value.why };
    }
    const values = numbersBy(ask.byLabel, result);
    return "why" in values
      ? { kind: "failed", why: String(values.why) }
      : { kind: "by_label", values };
  } catch (thrown) {
    return { kind: "failed", why: Fault.from(thrown).message };
  }
}
