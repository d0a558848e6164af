// Tests the command that replays recordings: it passes the recordings here, and reports the differences of edited ones.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ACCEPTED } from "./exceptions.ts";

const CASES = join(import.meta.dirname, "control-plane/cases");

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "sluice-recorded-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

function run(recordings: string) {
  const { status, stdout } = spawnSync(process.execPath, ["test/golden/run.ts"], {
    env: { PATH: process.env["PATH"], GOLDEN_DIR: recordings },
    encoding: "utf8",
  });
  return { status, lines: stdout.trimEnd().split("\n") };
}

test("the recorded policies pass", (t) => {
  const root = folder(t);
  cpSync(CASES, join(root, "control-plane"), { recursive: true });
  const { status, lines } = run(root);
  assert.deepEqual(lines, ["89 passed, 0 failed"]);
  assert.equal(status, 0);
});

/** Edits of a recording, each with the beginning of the difference that is reported. */
const CHANGES = [
  [
    "holder",
    "ticks.json",
    /"root\/\w+":\[null,/,
    (all: string) => all.replace("null", "7"),
    "root/",
  ],
  ["rate-limiter", "ticks.json", /"bucket_capacity":50/, () => '"bucket_capacity":51', ""],
  ["ema-warmup", "compiled.json", /"ema_window":"5s"/, () => '"ema_window":"6s"', "store /config"],
  ["nested-circuit", "circuit.json", /"id":"root.1.3"/, () => '"id":"root.99"', "circuit"],
  ["sma", "policy.yaml", /sma_window/, () => "sma_windo", "refused: policy.yaml:"],
] as const;

for (const [name, file, what, edit, begins] of CHANGES)
  test(`an edited ${file} of ${name} is reported`, (t) => {
    const root = folder(t);
    const path = join(root, "control-plane", name);
    cpSync(join(CASES, name), path, { recursive: true });
    const text = readFileSync(join(path, file), "utf8");
    const changed = text.replace(what, edit);
    assert.notEqual(changed, text);
    writeFileSync(join(path, file), changed);
    const { status, lines } = run(root);
    assert.equal(lines.length, 2, lines.join("\n"));
    assert.ok(lines[0]?.startsWith(`FAIL control-plane/${name}: ${begins}`), lines.join("\n"));
    assert.equal(lines[1], "0 passed, 1 failed");
    assert.equal(status, 1);
  });

test("a policy that must be refused and is accepted fails", (t) => {
  const root = folder(t);
  const path = join(root, "control-plane-invalid", "fine");
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "policy.yaml"), "circuit: {components: []}\n");
  writeFileSync(join(path, "note.md"), "Item to be named in the message: `circuit`.\n");
  const { status, lines } = run(root);
  assert.deepEqual(lines, [
    "FAIL control-plane-invalid/fine: accepted, wanted a refusal",
    "0 passed, 1 failed",
  ]);
  assert.equal(status, 1);
});

test("a policy that Sluice accepts on purpose must be accepted", (t) => {
  const root = folder(t);
  const [name = ""] = Object.keys(ACCEPTED);
  const path = join(root, "control-plane-invalid", name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "policy.yaml"), "circuit: {components: []}\n");
  assert.deepEqual(run(root).lines, ["1 passed, 0 failed"]);
  writeFileSync(join(path, "policy.yaml"), "circuit: {component: []}\n");
  const [line] = run(root).lines;
  assert.equal(line, `FAIL control-plane-invalid/${name}: refused, wanted Sluice to accept it`);
});

test("a run without cases fails", (t) => {
  const { status, lines } = run(folder(t));
  assert.deepEqual(lines, ["0 passed, 0 failed"]);
  assert.equal(status, 1);
});
