// `npm run -s test:mutants`: changes one place of the source at a time and runs the tests of its room. A mutant that no
// test notices survives: either a test is missing, or the change has no effect. Works on copies of the tree.
//
//   node test/tools/mutants.ts [--count 500] [--seed 1] [--minutes 60] [--workers 2] [--only src/flow/limit]
//
// The same seed chooses the same mutants of the same source.

import { spawn } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { seededChance } from "#base/chance.ts";
import { type Mutant, mutantsOf } from "./mutations.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Each room with the tests that a mutant of it must not pass. */
const ROOMS: Readonly<
  Record<string, { readonly source: string; readonly tests: readonly string[] }>
> = {
  flow: { source: "src/flow/**/*.ts", tests: ["test/flow/**/*.test.ts"] },
  circuit: {
    source: "src/circuit/**/*.ts",
    tests: ["test/circuit/**/*.test.ts", "test/golden/control-plane/*.test.ts"],
  },
  store: { source: "src/store/**/*.ts", tests: ["test/store/**/*.test.ts"] },
  "policy/compile": {
    source: "src/policy/{compile.ts,compile/**/*.ts}",
    tests: ["test/policy/**/*.test.ts", "test/golden/control-plane/*.test.ts"],
  },
};

/**
 * A mutant that loops is stopped, and counts as noticed: sooner by the tests beside it, which take seconds, than by those
 * of its room, which take up to a minute on a quiet machine.
 */
const LONGEST_MS = { beside: 60_000, room: 300_000 };

type Result = "noticed" | "survived" | "timed out";

interface Judged {
  readonly room: string;
  readonly mutant: Mutant;
  readonly result: Result;
}

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "500" },
    seed: { type: "string", default: "1" },
    minutes: { type: "string", default: "60" },
    workers: { type: "string", default: String(Math.min(2, availableParallelism())) },
    only: { type: "string", default: "" },
  },
});

/** A copy of what tests read, with the installed packages. */
function workspace(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-mutants-"));
  for (const part of [
    "src",
    "test",
    "docs",
    "deploy",
    "proto",
    "package.json",
    "tsconfig.json",
    "README.md",
  ]) {
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Whether the tests pass; all files in one process, since most of them take less time than a process. */
function passes(
  folder: string,
  patterns: readonly string[],
  longestMs = LONGEST_MS.room,
): Promise<Result> {
  const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: folder })).sort();
  if (files.length === 0) return Promise.resolve("survived");
  const args = ["--test", "--test-isolation=none", "--test-reporter=dot", ...files];
  return new Promise((resolved) => {
    const child = spawn(process.execPath, args, { cwd: folder, stdio: "ignore" });
    const alarm = setTimeout(() => child.kill("SIGKILL"), longestMs);
    child.on("exit", (code) => {
      clearTimeout(alarm);
      resolved(code === 0 ? "survived" : code === null ? "timed out" : "noticed");
    });
  });
}

async function judge(folder: string, room: string, mutant: Mutant): Promise<Judged> {
  const file = join(folder, mutant.file);
  const original = readFileSync(file, "utf8");
  writeFileSync(file, original.slice(0, mutant.from) + mutant.text + original.slice(mutant.to));
  try {
    // Most mutants are noticed by the tests beside the code, so the slow rest of the room runs only for the others.
    const beside = mutant.file.replace(/^src/, "test");
    const stages = [
      [[beside.replace(/\.ts$/, ".test.ts")], LONGEST_MS.beside],
      [[join(dirname(beside), "*.test.ts")], LONGEST_MS.beside],
      [ROOMS[room]?.tests ?? [], LONGEST_MS.room],
    ] as const;
    let result: Result = "survived";
    for (const [tests, longestMs] of stages) {
      if (result === "survived") result = await passes(folder, tests, longestMs);
    }
    return { room, mutant, result };
  } finally {
    writeFileSync(file, original);
  }
}

/** As many mutants as wanted, each place once, drawn from all rooms together. */
function chosen(): readonly (readonly [string, Mutant])[] {
  const all = Object.entries(ROOMS).flatMap(([room, { source }]) =>
    globSync(source, { cwd: ROOT })
      .sort()
      .filter((file) => file.startsWith(values.only))
      .flatMap((file) => mutantsOf(file, readFileSync(join(ROOT, file), "utf8")))
      .map((mutant) => [room, mutant] as const),
  );
  const chance = seededChance(Number(values.seed));
  const drawn: (readonly [string, Mutant])[] = [];
  while (all.length > 0 && drawn.length < Number(values.count)) {
    drawn.push(...all.splice(Math.floor(chance() * all.length), 1));
  }
  return drawn;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function describe({ file, line, was, text }: Mutant): string {
  return `${file}:${line}: ${JSON.stringify(was)} -> ${JSON.stringify(text)}`;
}

const waiting = [...chosen()];
const wanted = waiting.length;
const judged: Judged[] = [];
const end = Date.now() + Number(values.minutes) * 60_000;

/** The tests of the unchanged source must pass, or every mutant would count as noticed. */
async function verify(folder: string): Promise<void> {
  for (const [room, { tests }] of Object.entries(ROOMS)) {
    const needed = waiting.some(([of]) => of === room);
    if (needed && (await passes(folder, tests)) !== "survived") {
      throw new Error(`the tests of ${room} fail without any change`);
    }
  }
}

async function work(first: boolean): Promise<void> {
  const folder = workspace();
  try {
    if (first) await verify(folder);
    while (waiting.length > 0 && Date.now() < end) {
      const next = waiting.shift();
      if (next === undefined) break;
      const one = await judge(folder, ...next);
      judged.push(one);
      if (one.result === "survived") print(`survived  ${describe(one.mutant)}`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What is known so far. */
function summary(): void {
  print(`\n${judged.length} of ${wanted} mutants, seed ${values.seed}`);
  for (const room of Object.keys(ROOMS)) {
    const own = judged.filter((one) => one.room === room);
    const survived = own.filter(({ result }) => result === "survived").length;
    const late = own.filter(({ result }) => result === "timed out").length;
    const score =
      own.length === 0 ? "" : `, score ${Math.round((1 - survived / own.length) * 100)} %`;
    print(`${room}: ${own.length} mutants, ${survived} survived, ${late} timed out${score}`);
  }
}

// A run that is interrupted says how far it came.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    summary();
    process.exit(1);
  });
}
await Promise.all(Array.from({ length: Number(values.workers) }, (_, at) => work(at === 0)));
summary();
