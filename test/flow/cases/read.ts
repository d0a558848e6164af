// Golden cases of the data plane as files: a policy and what happens to it, step after step, with the answers that the
// language and the specification ask for. `test/cases/flow/README.md` describes the format.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

export const CASES = join(import.meta.dirname, "../../cases/flow");

type Fields = Readonly<Record<string, unknown>>;

/** One step of a case, at a time in seconds since the start. */
export type Step = Fields & { readonly at: number };

export interface FlowCase {
  readonly name: string;
  readonly about: string;
  /** The document. */
  readonly policy: Fields;
  /** The dynamic configuration at the start. */
  readonly dynamic: Fields;
  /** Settings of the agent. */
  readonly agent: Fields;
  readonly steps: readonly Step[];
}

/** The keys of each kind of step, the one that names the kind first. */
const STEPS: readonly (readonly string[])[] = [
  ["ask", "as", "gives", "deadline", "ramp", "control_point", "service", "size", "times"],
  ["end", "gives", "cost", "status"],
  ["leave"],
  ["configure"],
  ["answer"],
  ["edit"],
  ["withdraw"],
  ["controller"],
  ["state"],
];

const CASE_KEYS = ["about", "policy", "dynamic", "agent", "steps"];

function checkKeys(of: Fields, known: readonly string[], where: string): void {
  for (const key of Object.keys(of)) {
    if (!known.includes(key)) throw new Error(`${where}: wanted ${known.join(", ")}, got ${key}`);
  }
}

function readStep(given: Fields, before: number, where: string): Step {
  const keys = STEPS.find(([kind = ""]) => kind in given);
  if (keys === undefined) throw new Error(`${where}: wanted a step, got ${JSON.stringify(given)}`);
  checkKeys(given, ["at", ...keys], where);
  const at = given["at"] ?? before;
  if (typeof at !== "number" || at < before) throw new Error(`${where}: time goes back`);
  return { ...given, at };
}

function readCase(file: string): FlowCase {
  const name = file.replace(/\.yaml$/, "");
  const given = parse(readFileSync(join(CASES, file), "utf8")) as Fields;
  checkKeys(given, CASE_KEYS, file);
  const { about, policy, dynamic = {}, agent = {}, steps } = given;
  if (typeof about !== "string" || about === "") throw new Error(`${file}: says nothing about it`);
  checkKeys(agent as Fields, ["max_keys"], file);
  let at = 0;
  const read = (steps as readonly Fields[]).map((one, place) => {
    const step = readStep(one, at, `${file}, step ${place}`);
    at = step.at;
    return step;
  });
  return {
    name,
    about,
    policy: policy as Fields,
    dynamic: dynamic as Fields,
    agent: agent as Fields,
    steps: read,
  };
}

export function readCases(): readonly FlowCase[] {
  return readdirSync(CASES)
    .filter((file) => file.endsWith(".yaml"))
    .sort()
    .map(readCase);
}
