// A reporter of `node:test` that lists the ten slowest test files at the end of a run.

import { relative } from "node:path";
import type { TestEvent } from "node:test/reporters";

const LISTED = 10;

// biome-ignore lint/style/noDefaultExport: node:test takes a reporter from it
export default async function* slowestFiles(
  source: AsyncIterable<TestEvent>,
): AsyncGenerator<string> {
  const seconds = new Map<string, number>();
  for await (const { type, data } of source)
    if (type === "test:summary" && data.file !== undefined)
      seconds.set(relative(process.cwd(), data.file), data.duration_ms / 1_000);
  // A run of one file has no summary by file.
  if (seconds.size < 2) return;
  const slowest = [...seconds].sort(([, one], [, other]) => other - one).slice(0, LISTED);
  const lines = slowest.map(([file, took]) => `${took.toFixed(1).padStart(7)} s  ${file}`);
  yield `slowest test files:\n${lines.join("\n")}\n`;
}
