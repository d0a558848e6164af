// Runs recordings of the reference system wherever they lie (`GOLDEN_DIR`, or beside the checkout, or the
// copies here): each failing case with its first difference, then how many passed.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { CODES, Fault } from "#base/fault.ts";
import { enforceLabels } from "#promql/enforce.ts";
import { GrpcClient } from "#wire/grpc-client.ts";
import { caller, OURS, replayControlApi } from "./control-api.ts";
import { judgePolicy, judgeRefusal } from "./control-plane/judge.ts";

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

/** Starts the process that answers, over a directory without policies, and replays what callers were told. */
async function apiCases(root: string): Promise<readonly Case[]> {
  const recorded = join(root, "control-api");
  if (!existsSync(recorded)) return [];
  const policies = mkdtempSync(join(tmpdir(), "sluice-golden-"));
  const sluice = spawn(
    process.execPath,
    ["src/cli/sluice.ts", "standalone", "--policies", policies],
    {
      cwd: join(OWN, "../.."),
      env: {
        PATH: process.env["PATH"],
        SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
        SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
        SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
      },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  try {
    const address = await said(sluice.stderr, /listening on (127\.0\.0\.1:\d+)/);
    const client = new GrpcClient({ address });
    const unary = await caller(async (path, message) => {
      try {
        return { code: 0, message: await client.call(path, message, { timeoutMs: 10_000 }) };
      } catch (thrown) {
        return { code: CODES[Fault.from(thrown).code].number, message: undefined };
      }
    });
    const { steps, differences } = await replayControlApi(recorded, address, unary);
    await client.close();
    const wrong = differences.filter(({ file, step }) => !(`${file} ${step}` in OURS));
    const failing = wrong.map(({ file, step, text }) => ({
      name: `control-api/${file} step ${step}`,
      judge: () => text,
    }));
    const good = Array.from({ length: steps - wrong.length }, (_, at) => ({
      name: `control-api ${at}`,
      judge: () => undefined,
    }));
    return [...failing, ...good];
  } finally {
    sluice.kill("SIGTERM");
    rmSync(policies, { recursive: true });
  }
}

async function said(stream: Readable, words: RegExp): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += String(chunk);
    const [, found] = words.exec(text) ?? [];
    if (found === undefined) continue;
    stream.resume();
    return found;
  }
  throw new Error(`wanted ${String(words)}, got ${text}`);
}

const root = folder();
const cases = [
  ...casesOf(root, "control-plane", judgePolicy),
  ...casesOf(root, "control-plane-invalid", judgeRefusal),
  ...labelCases(root),
  ...(await apiCases(root)),
];
let failed = 0;
for (const { name, judge } of cases) {
  const difference = outcome(judge);
  if (difference === undefined) continue;
  failed++;
  process.stdout.write(`FAIL ${name}: ${difference}\n`);
}
process.stdout.write(`${cases.length - failed} passed, ${failed} failed\n`);
// A run that found nothing to judge has not passed.
process.exitCode = failed > 0 || cases.length === 0 ? 1 : 0;
