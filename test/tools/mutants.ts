// `npm run -s test:mutants`: changes one place of the source at a time and runs the tests that execute it. A mutant that
// no test notices survives: either a test is missing, or the change has no effect. Works on copies of the tree.
//
//   node test/tools/mutants.ts [--count 500] [--seed 1] [--minutes 60] [--workers 2] [--only src/flow/limit] [--most 90]
//
// `--most`: seconds that all tests of one mutant may take, where those of its own room take long.
//
// The same seed chooses the same mutants of the same source.

import { createHash } from "node:crypto";
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { seededChance } from "#base/chance.ts";
import { executes, record, runTest, type TestFile } from "./coverage.ts";
import { type Mutant, mutantsOf } from "./mutations.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const RECORDED = join(ROOT, ".cache/mutants-coverage.json");

interface Room {
  /** The source whose places are changed. */
  readonly source: string;
  /** The tests that may notice it: those of the room, and of the rooms that use it most. */
  readonly tests: string;
}

const OF_PARTS =
  "test/{circuit,controller,flow,golden/control-plane,policy,store,sync}/**/*.test.ts";
/** Tests of whole processes, without those that take minutes. */
const OF_PROCESSES =
  "test/{agent,controller,daemon,standalone}/{,**/}!(fifty-agents|queue-shares|published-sdk).test.ts";

const ROOMS: Readonly<Record<string, Room>> = {
  flow: { source: "src/flow/**/*.ts", tests: OF_PARTS },
  circuit: { source: "src/circuit/**/*.ts", tests: OF_PARTS },
  store: { source: "src/store/**/*.ts", tests: OF_PARTS },
  "policy/compile": { source: "src/policy/{compile.ts,compile/**/*.ts}", tests: OF_PARTS },
  agent: { source: "src/agent/**/*.ts", tests: OF_PROCESSES },
  controller: { source: "src/controller/**/*.ts", tests: OF_PROCESSES },
  daemon: { source: "src/daemon/**/*.ts", tests: OF_PROCESSES },
};

/** Files that tests read besides `src` and `test`. */
const PARTS = "docs deploy proto package.json tsconfig.json README.md CONTRIBUTING.md Makefile";

/**
 * A mutant that loops is stopped. A busy machine can make a test as late, so it gets a second chance with twice the time,
 * and mutants that are stopped twice are counted apart.
 */
const MIN_LIMIT_MS = 20_000;
const LIMIT_RATIO = 8;
const RECORDING_LIMIT_MS = 300_000;
/**
 * Most time that the tests of one mutant may take by what was recorded, besides those of its own room: a constant is
 * executed by most tests.
 */
const MAX_MS = 60_000;

/** `not run`: no test executes the place, so none can notice the change. It counts as survived. */
type Result = "noticed" | "survived" | "not run" | "timed out";

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
    most: { type: "string" },
  },
});

/** A copy of what tests read, with the installed packages. */
function workspace(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-mutants-"));
  for (const part of ["src", "test", ...PARTS.split(" ")])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  // Otherwise each copy would install the programs that tests start.
  mkdirSync(join(ROOT, ".cache/tools"), { recursive: true });
  mkdirSync(join(folder, ".cache"));
  symlinkSync(join(ROOT, ".cache/tools"), join(folder, ".cache/tools"));
  return folder;
}

/** The places that each test file executes; read from the last run if nothing has changed since. */
async function recordTests(folder: string): Promise<readonly TestFile[]> {
  const waiting = [
    ...new Set(inUse().flatMap(([, { tests }]) => globSync(tests, { cwd: folder }))),
  ].sort();
  const hash = createHash("sha256").update(waiting.join("\n"));
  for (const file of globSync("{src,test}/**/*.{ts,js,json,yaml}", { cwd: ROOT }).sort())
    if (!file.startsWith("test/tools/")) hash.update(file).update(readFileSync(join(ROOT, file)));
  const key = hash.digest("hex");
  try {
    const known = JSON.parse(readFileSync(RECORDED, "utf8"));
    if (known.key === key) return known.tests;
  } catch {
    // There is no earlier run.
  }
  const tests: TestFile[] = [];
  await inParallel(async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      // A test that a busy machine made fail may pass the second time.
      const found =
        (await record(folder, file, RECORDING_LIMIT_MS)) ??
        (await record(folder, file, RECORDING_LIMIT_MS));
      if (found === undefined) print(`left out, since it fails without any change: ${file}`);
      else tests.push(found);
    }
  });
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  writeFileSync(RECORDED, JSON.stringify({ key, tests }));
  return tests;
}

async function inParallel(work: (worker: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: Number(values.workers) }, (_, at) => work(at)));
}

/**
 * The tests that execute the place of a mutant: the one beside its file, then from the fastest on all of its room, and a
 * minute of others.
 */
function testsOf({ file, at }: Mutant, tests: readonly TestFile[]): readonly TestFile[] {
  const beside = file.replace(/^src/, "test").replace(/\.ts$/, ".test.ts");
  const room = `test/${file.split("/")[1]}/`;
  const order = (test: TestFile) => (test.file === beside ? 0 : test.ms);
  let total = 0;
  return tests
    .filter((test) => executes(test, file, at))
    .sort((a, b) => order(a) - order(b))
    .filter(({ file: test, ms }) => {
      if (test.startsWith(room) && values.most === undefined) return true;
      total += ms;
      return total <= (values.most === undefined ? MAX_MS : Number(values.most) * 1_000);
    });
}

async function judge(folder: string, mutant: Mutant, tests: readonly TestFile[]): Promise<Result> {
  const running = testsOf(mutant, tests);
  if (running.length === 0) return "not run";
  const path = join(folder, mutant.file);
  const original = readFileSync(path, "utf8");
  writeFileSync(path, original.slice(0, mutant.from) + mutant.text + original.slice(mutant.to));
  try {
    for (const { file, ms } of running) {
      const limit = Math.max(MIN_LIMIT_MS, LIMIT_RATIO * ms);
      let outcome = await runTest(folder, file, limit);
      if (outcome === "timed out") outcome = await runTest(folder, file, 2 * limit);
      if (outcome !== "passed") return outcome === "failed" ? "noticed" : "timed out";
    }
    return "survived";
  } finally {
    writeFileSync(path, original);
  }
}

/** The files of a room that `--only` names, or all of them. */
function sourcesOf(source: string): readonly string[] {
  return globSync(source, { cwd: ROOT })
    .filter((file) => file.startsWith(values.only))
    .sort();
}

/** The rooms with such files. */
function inUse(): readonly (readonly [string, Room])[] {
  return Object.entries(ROOMS).filter(([, { source }]) => sourcesOf(source).length > 0);
}

/** As many mutants as wanted, each place once, drawn from all rooms together. */
function chosen(): readonly (readonly [string, Mutant])[] {
  const all = inUse().flatMap(([room, { source }]) =>
    sourcesOf(source)
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
const started = Date.now();
const minutesSpent = () => Math.round((Date.now() - started) / 60_000);

/** The report so far. */
function summary(): void {
  print(`\n${judged.length} of ${wanted} mutants, seed ${values.seed}, ${minutesSpent()} minutes`);
  for (const [room] of inUse()) {
    const own = judged.filter((one) => one.room === room);
    const count = (result: Result) => own.filter((one) => one.result === result).length;
    const survived = count("survived") + count("not run");
    const score =
      own.length === 0 ? "" : `, score ${Math.round((1 - survived / own.length) * 100)} %`;
    const late = count("timed out");
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

const folders: string[] = [];
process.once("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
await inParallel(async () => void folders.push(workspace()));
const tests = await recordTests(folders[0] ?? ROOT);
print(`${tests.length} test files, recorded after ${minutesSpent()} minutes`);
const end = started + Number(values.minutes) * 60_000;
await inParallel(async (worker) => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const [room, mutant] = next;
    const result = await judge(folders[worker] ?? "", mutant, tests);
    judged.push({ room, mutant, result });
    if (result !== "noticed") print(`${result}  ${describe(mutant)}`);
    if (Date.now() > end) break;
  }
});
summary();
