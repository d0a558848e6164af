// Records which places of the source each test file executes, with V8's coverage of the processes that the file starts.

import { spawn } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export type Outcome = "passed" | "failed" | "timed out";

/** From the first offset to before the second. */
type Span = readonly [from: number, to: number];

export interface TestFile {
  readonly file: string;
  /** Duration in milliseconds. */
  readonly ms: number;
  /** The executed parts of source files, by their paths. */
  readonly ran: Readonly<Record<string, readonly Span[]>>;
}

interface Report {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly ranges: readonly {
        readonly startOffset: number;
        readonly endOffset: number;
        readonly count: number;
      }[];
    }[];
  }[];
}

/** Runs one test file, and kills it with all that it started when it takes longer than allowed. */
export function runTest(
  folder: string,
  file: string,
  longestMs: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return new Promise((resolved) => {
    const child = spawn(process.execPath, [file], {
      cwd: folder,
      stdio: "ignore",
      env: { ...process.env, ...env },
      detached: true,
    });
    const end = () => killGroup(child.pid);
    process.once("exit", end);
    let late = false;
    const alarm = setTimeout(() => {
      late = true;
      end();
    }, longestMs);
    child.on("exit", (code) => {
      clearTimeout(alarm);
      // A test that failed may leave processes behind.
      end();
      process.off("exit", end);
      resolved(late ? "timed out" : code === 0 ? "passed" : "failed");
    });
  });
}

function killGroup(leader: number | undefined): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Runs a test file of the unchanged source. Returns undefined if it fails. */
export async function record(
  folder: string,
  file: string,
  longestMs: number,
): Promise<TestFile | undefined> {
  const reports = mkdtempSync(join(tmpdir(), "sluice-coverage-"));
  try {
    const started = performance.now();
    const outcome = await runTest(folder, file, longestMs, { NODE_V8_COVERAGE: reports });
    const ms = Math.round(performance.now() - started);
    if (outcome !== "passed") return undefined;
    return { file, ms, ran: executedIn(folder, reports) };
  } finally {
    rmSync(reports, { recursive: true, force: true });
  }
}

/** True if the test file executes what stands at that offset. */
export function executes({ ran }: TestFile, source: string, offset: number): boolean {
  return ran[source]?.some(([from, to]) => from <= offset && offset < to) ?? false;
}

function executedIn(folder: string, reports: string): Record<string, Span[]> {
  const root = `${pathToFileURL(join(folder, "src"))}/`;
  const painted = new Map<string, Uint8Array>();
  for (const name of globSync("*.json", { cwd: reports })) {
    for (const { url, functions } of readReport(join(reports, name)).result) {
      if (!url.startsWith(root)) continue;
      const source = `src/${url.slice(root.length)}`;
      const ranges = functions.flatMap((each) => each.ranges);
      const end = Math.max(0, ...ranges.map(({ endOffset }) => endOffset));
      const here = new Uint8Array(end);
      // Inner ranges come after those around them, and replace their counts.
      ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
      for (const { startOffset, endOffset, count } of ranges) {
        here.fill(count > 0 ? 1 : 0, startOffset, endOffset);
      }
      const before = painted.get(source);
      if (before === undefined) painted.set(source, here);
      else for (let at = 0; at < end; at++) before[at] ||= here[at] ?? 0;
    }
  }
  return Object.fromEntries([...painted].map(([source, bytes]) => [source, spansOf(bytes)]));
}

/** A process that was killed while it wrote leaves half a report. */
function readReport(path: string): Report {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return { result: [] };
  }
}

function spansOf(bytes: Uint8Array): Span[] {
  const spans: Span[] = [];
  let from = -1;
  for (let at = 0; at <= bytes.length; at++) {
    const ran = bytes[at] === 1;
    if (ran && from === -1) from = at;
    if (ran || from === -1) continue;
    spans.push([from, at]);
    from = -1;
  }
  return spans;
}
