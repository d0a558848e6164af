// `npm run -s test:golden`: replays recordings of the reference implementation from `GOLDEN_DIR`, or from beside the
// checkout, or from this folder. Prints the first difference of each failing case and how many passed.

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { enforceLabels } from "#promql/enforce-labels.ts";
import { type Replayed, replayControlApi } from "./control-api.ts";
import { OURS } from "./control-differences.ts";
import { judgePolicy, judgeRefusal } from "./control-plane/judge.ts";
import { grpcCaller, replayOverEtcd } from "./control-store.ts";
import { copyPolicies, replayDataPlane } from "./data-plane.ts";
import { ACCEPTED, EXCEPTIONS, LEFT_OUT as WAITING } from "./exceptions.ts";
import { startStandalone } from "./standalone.ts";

type Judge = (path: string) => string | undefined;

interface Case {
  readonly name: string;
  readonly judge: () => string | undefined;
}

interface Enforced {
  readonly query: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly enforced?: string;
  readonly error?: unknown;
}

const BESIDE = "../shared/golden";
const OWN = import.meta.dirname;

function folder(): string {
  const given = process.env["GOLDEN_DIR"];
  if (given !== undefined && given !== "") return given;
  return existsSync(BESIDE) ? BESIDE : OWN;
}

/** Cases of a set are folders with a policy, directly below it or below `cases`. */
function casesOf(root: string, set: string, judge: Judge): readonly Case[] {
  const inner = join(root, set, "cases");
  const path = existsSync(inner) ? inner : join(root, set);
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .filter((name) => existsSync(join(path, name, "policy.yaml")))
    .sort()
    .map((name) => ({ name: `${set}/${name}`, judge: () => judge(join(path, name)) }));
}

function labelCases(root: string): readonly Case[] {
  const file = join(root, "control-plane-promql", "label-enforcement.json");
  if (!existsSync(file)) return [];
  const recorded = JSON.parse(readFileSync(file, "utf8")) as readonly Enforced[];
  return recorded.map((each, at) => ({
    name: `control-plane-promql/label-enforcement ${at}`,
    judge: () => enforcement(each),
  }));
}

function enforcement({ query, labels, enforced = "", error }: Enforced): string | undefined {
  const pairs = Object.entries(labels).map(([name, value]) => ({ name, value }));
  let got: string;
  try {
    got = enforceLabels(query, pairs);
  } catch (thrown) {
    return error === undefined ? `${query}: wanted ${enforced}, got ${String(thrown)}` : undefined;
  }
  if (error !== undefined) return `${query}: wanted a refusal, got ${got}`;
  return got === enforced ? undefined : `${query}: wanted ${enforced}, got ${got}`;
}

function outcome(judge: () => string | undefined): string | undefined {
  try {
    return judge();
  } catch (thrown) {
    return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  }
}

/** Runs `main` with the address of a Sluice whose policy directory `fill` has filled. */
async function withSluice<T>(
  fill: (policies: string) => void,
  main: (address: string) => Promise<T>,
): Promise<T> {
  const policies = mkdtempSync(join(tmpdir(), "sluice-golden-"));
  fill(policies);
  const sluice = await startStandalone(policies);
  try {
    return await main(sluice.address);
  } finally {
    await sluice.stop();
    rmSync(policies, { recursive: true });
  }
}

/** Cases whose outcome is already known. */
function finished(steps: number, wrong: readonly (readonly [string, string])[]): readonly Case[] {
  const good = Array.from({ length: steps - wrong.length }, () => ({ name: "", judge: nothing }));
  return [...wrong.map(([name, text]) => ({ name, judge: () => text })), ...good];
}

const nothing = () => undefined;

async function apiCases(root: string): Promise<readonly Case[]> {
  const recorded = join(root, "control-api");
  if (!existsSync(recorded)) return [];
  const cleaning: (() => unknown)[] = [];
  const ending = { after: (clean: () => unknown) => void cleaning.push(clean) };
  try {
    const alone = await withSluice(nothing, async (address) =>
      replayControlApi(recorded, address, await grpcCaller(ending, address)),
    );
    return judged(alone, await replayOverEtcd(ending, recorded));
  } finally {
    for (const clean of cleaning.reverse()) await clean();
  }
}

function judged(...replayed: readonly Replayed[]): readonly Case[] {
  const differences = replayed.flatMap((each) => each.differences);
  const steps = replayed.reduce((sum, each) => sum + each.steps, 0);
  const wrong = differences.filter(({ file, step }) => !(`${file} ${step}` in OURS));
  return finished(
    steps,
    wrong.map(({ file, step, text }) => [`control-api/${file} step ${step}`, text] as const),
  );
}

async function checkCases(root: string): Promise<readonly Case[]> {
  const recorded = join(root, "data-plane");
  if (!existsSync(recorded)) return [];
  const names = readdirSync(recorded).filter(
    (name) => !(name in WAITING) && existsSync(join(recorded, name, "steps.json")),
  );
  const cases = mkdtempSync(join(tmpdir(), "sluice-cases-"));
  for (const name of names) cpSync(join(recorded, name), join(cases, name), { recursive: true });
  const fill = (policies: string) => {
    for (const name of names) {
      const own = join(recorded, name, "policies");
      if (existsSync(own)) copyPolicies(own, policies);
    }
  };
  const report = await withSluice(fill, (address) => replayDataPlane(cases, address));
  rmSync(cases, { recursive: true });
  const steps = [...report].flatMap(([name, found]) =>
    [...found].map(([step, difference]) => ({ name, step, difference })),
  );
  const wrong = steps.flatMap(({ name, step, difference }) => {
    const excused = EXCEPTIONS[name]?.[step] !== undefined;
    if (difference === undefined || excused) return [];
    return [[`data-plane/${name} step ${step}`, difference.trim()] as const];
  });
  return finished(steps.length, wrong);
}

/** A refusal, unless Sluice accepts the policy on purpose. */
function judgeInvalid(path: string): string | undefined {
  const difference = judgeRefusal(path);
  if (!(basename(path) in ACCEPTED)) return difference;
  const accepted = difference?.startsWith("accepted") === true;
  return accepted ? undefined : "refused, wanted Sluice to accept it";
}

const root = folder();
const cases = [
  ...casesOf(root, "control-plane", judgePolicy),
  ...casesOf(root, "control-plane-invalid", judgeInvalid),
  ...labelCases(root),
  ...(await apiCases(root)),
  ...(await checkCases(root)),
];
let failed = 0;
for (const { name, judge } of cases) {
  const difference = outcome(judge);
  if (difference === undefined) continue;
  failed++;
  process.stdout.write(`FAIL ${name}: ${difference}\n`);
}
process.stdout.write(`${cases.length - failed} passed, ${failed} failed\n`);
// A run that finds no case fails.
process.exitCode = failed > 0 || cases.length === 0 ? 1 : 0;
