// The files that `sluice policy check` accepts, and what it says of those that it cannot read.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runCommand as run } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { LIMITED } from "./setup.ts";

describe("sluice policy check", () => {
  it("accepts good documents with 0 and refuses bad ones with 1, all findings at once", async (t) => {
    const folder = folderOf(t, {
      "good.yaml": LIMITED,
      "bad.yaml": LIMITED.replace("60s", "1m").replace("selectors", "selector"),
    });
    const good = await run(["policy", "check", join(folder, "good.yaml")]);
    assert.equal(good.code, 0, good.err);
    assert.match(
      good.out,
      /policy good \([0-9a-f]{32}\): 6 components in the circuit, 1 for agents/,
    );
    const bad = await run(["policy", "check", join(folder, "good.yaml"), join(folder, "bad.yaml")]);
    assert.equal(bad.code, 1);
    assert.match(bad.err, /bad\.yaml:5:11: .*selector/);
    assert.match(bad.err, /bad\.yaml:9:\d+: .*interval/);
  });

  it("names a file that cannot be read", async (t) => {
    const none = join(folderOf(t), "none.yaml");
    for (const args of [
      ["policy", "check", none],
      ["check", none],
    ]) {
      const { code, err } = await run(args);
      assert.equal(code, 64);
      assert.match(
        err,
        /^sluice: .*none\.yaml: wanted a file that can be read, got ENOENT[^\n]*\n$/,
      );
    }
  });

  it("does not wait for a writer of a pipe in a directory", async (t) => {
    const folder = folderOf(t, { "good.yaml": LIMITED });
    execFileSync("mkfifo", [join(folder, "pipe.yaml")]);
    const { code, err } = await run(["policy", "check", folder]);
    assert.equal(code, 64);
    assert.match(err, /pipe\.yaml: wanted a regular file, got a pipe\n$/);
  });

  it("names every file that cannot be read, with its control characters escaped", async (t) => {
    const folder = folderOf(t, { "good.yaml": LIMITED, "binary.yaml": "GIF89a\0\0" });
    const odd = "red\u001b[31m\nsluice: all is well\u202e.yaml";
    for (const name of ["gone.yaml", "good.dynamic.yaml", odd])
      symlinkSync("away", join(folder, name));
    const { code, out, err } = await run(["policy", "check", join(folder, odd), folder]);
    assert.deepEqual([code, out], [64, ""]);
    const lines = err.trimEnd().replace("sluice: ", "").split("\n");
    assert.deepEqual(
      lines.map((line) => line.slice(folder.length + 1).replace(/: wanted .*/, "")),
      [
        "red\\u001b[31m\\u000asluice: all is well\\u202e.yaml",
        "binary.yaml",
        "gone.yaml",
        "good.dynamic.yaml",
      ],
    );
  });

  it("accepts a directory for its documents, and - for standard input", async (t) => {
    const folder = folderOf(t, {
      "a.yaml": LIMITED,
      "b.yml": LIMITED,
      "b.dynamic.yaml": "x: 1\n",
      ".hidden.yaml": "no policy",
      "notes.txt": "no policy",
    });
    const whole = await run(["policy", "check", folder]);
    assert.equal(whole.code, 0, whole.err);
    const names = [...whole.out.matchAll(/policy (\w+) \(/g)].map(([, name]) => name);
    assert.deepEqual(names, ["a", "b"]);
    const stdin = (async function* () {
      yield LIMITED.replace("60s", "1m");
    })();
    const piped = await run(["policy", "check", "-"], { stdin });
    assert.equal(piped.code, 1);
    assert.match(piped.err, /^stdin:9:\d+: /);
  });

  it("reads standard input once, and refuses a second -", async (t) => {
    const scenario = join(folderOf(t, { "s.yaml": "" }), "s.yaml");
    for (const command of [
      ["policy", "check"],
      ["policy", "expand"],
      ["policy", "graph"],
      ["simulate", "--scenario", scenario],
    ]) {
      const stdin = (async function* () {
        yield LIMITED;
      })();
      const { code, out, err } = await run([...command, "-", "-"], { stdin });
      assert.deepEqual([code, out], [64, ""], command.join(" "));
      assert.match(err, /^sluice: [a-z ]+: wanted - at most once, got it 2 times\n$/);
    }
  });

  it("names in one line, with code 64, input that cannot be checked", async (t) => {
    const folder = folderOf(t, { "binary.yaml": "GIF89a\0\0" });
    mkdirSync(join(folder, "empty"));
    symlinkSync("loop.yaml", join(folder, "loop.yaml"));
    const unusable: Readonly<Record<string, RegExp>> = {
      empty: /empty: wanted at least one policy \(\*\.yaml, \*\.yml, \*\.json\).*, got none/,
      "loop.yaml": /loop\.yaml: wanted a file that can be read, got ELOOP/,
      "binary.yaml": /binary\.yaml: wanted a policy as text, got a binary file/,
      none: /none: wanted a file that can be read, got ENOENT/,
    };
    for (const [name, said] of Object.entries(unusable)) {
      for (const command of [
        ["policy", "check"],
        ["policy", "expand"],
        ["policy", "graph"],
      ]) {
        const { code, out, err } = await run([...command, join(folder, name)]);
        assert.deepEqual([code, out], [64, ""], name);
        assert.match(err, said);
        assert.match(err, /^sluice: [^\n]+\n$/);
      }
    }
    const blank = join(folderOf(t, { "blank.yaml": "# nothing\n" }), "blank.yaml");
    const { code, err } = await run(["policy", "check", blank]);
    assert.equal(code, 1);
    assert.match(err, /blank\.yaml:1:1: wanted a policy, got no document\nnot valid: 1 fault\n$/);
  });

  it("prints no control characters of a file that is not a policy", async (t) => {
    const folder = folderOf(t);
    const every = Uint8Array.from({ length: 255 }, (_, byte) => byte + 1);
    writeFileSync(join(folder, "binary.yaml"), every);
    const text = 'circuit: { components: [], "\\e[31mred\\x07\\u202e\\u2028": 1 }\n';
    writeFileSync(join(folder, "escaped.yaml"), text);
    for (const [name, exitCode] of [
      ["binary.yaml", 64],
      ["escaped.yaml", 1],
    ] as const) {
      const { code, err, out } = await run(["policy", "check", join(folder, name)]);
      assert.deepEqual([code, out], [exitCode, ""]);
      assert.doesNotMatch(err, /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u);
    }
    const { err } = await run(["policy", "check", join(folder, "escaped.yaml")]);
    assert.match(err, /\\u001b\[31mred\\u0007\\u202e\\u2028/);
  });
});
