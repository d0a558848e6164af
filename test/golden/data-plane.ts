// Replays recorded checks against a running agent, with the tool that belongs to the recordings.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The difference of each step of each case; undefined for a step that passes. */
export type Report = ReadonlyMap<string, ReadonlyMap<number, string | undefined>>;

/** Copies recorded policies, with the session hash of the reference: by default Sluice chooses other sessions. */
export function copyPolicies(from: string, to: string): void {
  for (const file of readdirSync(from)) {
    const text = readFileSync(join(from, file), "utf8");
    const hashed = text.replaceAll(/^( *)session_label_key: .*$/gm, "$&\n$1hash: fnv1a");
    writeFileSync(join(to, file), hashed);
  }
}

/** Replays the cases of a folder. The agent at `address` must have their policies. */
export async function replayDataPlane(cases: string, address: string): Promise<Report> {
  const replay = join(import.meta.dirname, "replay.mjs");
  const { output, code } = await new Promise<{ output: string; code: number }>((resolve) => {
    const child = execFile(
      process.execPath,
      [replay, "--address", address, "--verbose", cases],
      { maxBuffer: 64 << 20 },
      (_error, out, err) => resolve({ output: out + err, code: child.exitCode ?? -1 }),
    );
  });
  assert.ok(code === 0 || code === 1, output);
  return readReport(output);
}

function readReport(output: string): Report {
  const cases = new Map<string, ReadonlyMap<number, string | undefined>>();
  let steps = new Map<number, string | undefined>();
  let failing = -1;
  for (const line of output.split("\n")) {
    const [, mark, number] = /^ {2}(x|ok|-) step (\d+)/.exec(line) ?? [];
    const [, name] = /^(?:ok|FAIL)\s+(\S+) \(/.exec(line) ?? [];
    if (number !== undefined) {
      failing = mark === "x" ? Number(number) : -1;
      if (mark !== "-") steps.set(Number(number), mark === "x" ? "" : undefined);
    } else if (name !== undefined) {
      cases.set(name, steps);
      steps = new Map();
      failing = -1;
    } else if (failing >= 0 && line.startsWith("      ")) {
      steps.set(failing, `${steps.get(failing)}${line}\n`);
    }
  }
  return cases;
}
