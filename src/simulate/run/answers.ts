// Answers to the queries of policies: scripted by the scenario, or else evaluated over the metrics of the run.

import { Fault } from "#base/fault.ts";
import type { QueryAnswer, QueryRequest } from "#circuit/component.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import { queriesOf } from "#circuit/queries.ts";
import { numericResult, type QueryEngine } from "#promql/result.ts";
import { parse } from "#promql/syntax/parse.ts";
import { print } from "#promql/syntax/print.ts";
import type { Profile } from "../scenario/profile.ts";
import { readRecording } from "../scenario/recording.ts";
import type { Script } from "../scenario.ts";

/** A query of a policy and the component that asks it. */
export interface PolicyQuery {
  readonly policy: string;
  readonly component: string;
  readonly query: string;
}

/** The queries of one policy. */
export function policyQueriesOf(plan: CircuitPlan): readonly PolicyQuery[] {
  const policy = plan.policyName;
  return queriesOf(plan).map(({ componentId: component, query }) => ({ policy, component, query }));
}

/** True if a script answers this query. */
export function scriptAnswers(script: Script, asked: PolicyQuery): boolean {
  if (script.policy !== undefined && script.policy !== asked.policy) return false;
  if (script.component !== undefined) return script.component === asked.component;
  return normalized(script.query ?? "") === normalized(asked.query);
}

/** The canonical form of a query, so that equal queries compare equal; of other text, white space is normalized. */
function normalized(query: string): string {
  try {
    return print(parse(query));
  } catch {
    return query.replaceAll(/\s+/g, " ").trim();
  }
}

/** The scripted answer at a time of the run, ms. */
export type Scripted = (at: number) => QueryAnswer;

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

/** Evaluates a query as the controller does. */
export async function evaluateQuery(measure: QueryEngine, ask: QueryRequest): Promise<QueryAnswer> {
  try {
    return numericResult(await measure.query(ask.query, ask.at, NEVER), ask.byLabel);
  } catch (thrown) {
    return { kind: "failed", why: Fault.from(thrown).message };
  }
}
