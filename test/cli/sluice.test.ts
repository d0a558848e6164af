// The command line as people use it: commands, flags, help, and the settings of processes.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runCommand as run } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { SLUICE } from "./setup.ts";

/** Prints which of Node's own modules a process loaded. */
const LOADED =
  "data:text/javascript,process.on('exit',()=>console.log(process.moduleLoadList.join()))";

describe("sluice", () => {
  it("runs from the second start on without Node's TypeScript compiler, which takes 20 MB", (t) => {
    const NODE_COMPILE_CACHE = folderOf(t, {});
    const [first, second] = [0, 1].map(() => {
      const args = ["--import", LOADED, SLUICE, "version"];
      return execFileSync(process.execPath, args, { env: { ...process.env, NODE_COMPILE_CACHE } });
    });
    const compiler = "NativeModule internal/deps/amaro/dist/index";
    assert.ok(String(first).includes(compiler));
    assert.ok(!String(second).includes(compiler));
  });

  it("without a command, or asked for help, lists the commands", async () => {
    const again = [
      ["help", "help"],
      ["help", "--help"],
      ["-h", "-h"],
      ["--help", "help", "-h"],
    ];
    for (const args of [[], ["help"], ["--help"], ...again]) {
      const { code, out } = await run(args);
      assert.equal(code, 0);
      assert.match(out, /sluice standalone --policies DIR/);
    }
  });

  it("prints the usage of a command with every flag", async () => {
    const commands = {
      standalone: ["--policies DIR", "--config-path PATH"],
      agent: ["--config-path PATH"],
      controller: ["--policies DIR", "--config-path PATH"],
      check: ["--address", "--control-point", "--header", "--ramp-mode", "--expect-end", "--json"],
      "policy check": ["--json", "--strict", "--label NAME", "--queries prometheus|own", "FILE"],
      "policy expand": ["--json", "FILE"],
      "policy graph": ["--format mermaid|dot|json", "--open", "--depth N", "FILE"],
      "agent config": ["--config-path", "--json"],
      "controller config": ["--config-path", "--json"],
      completion: ["--help"],
      version: ["--json", "--help"],
    };
    for (const [name, flags] of Object.entries(commands)) {
      for (const help of ["--help", "-h"]) {
        const { code, out, err } = await run([...name.split(" "), help]);
        assert.deepEqual([code, err], [0, ""], name);
        assert.ok(out.startsWith(`sluice ${name}`), out);
        for (const flag of flags) assert.ok(out.includes(`  ${flag}`), `${name}: ${flag}`);
      }
    }
    const { code, out } = await run(["policy", "--help"]);
    assert.equal(code, 0);
    assert.match(out, /^sluice policy check \[--json\] \[--strict\] \[--auto-scale\] .* FILE…\n/);
    const unknown = await run(["polise", "--help"]);
    assert.equal(unknown.code, 64);
  });

  it("accepts _ for - in flags and leaves values alone", async (t) => {
    const file = join(
      folderOf(t, { "a_b.yaml": "agent_info: { agent_group: blue }\n" }),
      "a_b.yaml",
    );
    for (const flag of [
      [`--config_path=${file}`],
      ["--config_path", file],
      ["--config-path", file],
    ]) {
      const { code, out, err } = await run(["agent", "config", ...flag]);
      assert.equal(code, 0, err);
      assert.match(out, /blue/);
      assert.match(out, /a_b\.yaml/);
    }
  });

  it("refuses unknown commands and flags with code 64, one line and a suggestion", async () => {
    const refused: Readonly<Record<string, RegExp>> = {
      sdandalone: /no such command, "sdandalone"; did you mean standalone\?/,
      policy:
        /no such command, "policy"; did you mean policy check, policy expand, policy graph, policy apply, policy list, policy get, policy delete\?/,
      "policy chekc": /did you mean policy check\? sluice help/,
      "policy zzzzzzzz": /did you mean policy check, policy expand, /,
      "polcy check": /did you mean policy check\?/,
      "check --adress x": /unknown flag "--adress"; did you mean --address\?/,
      "check -a": /unknown flag "-a"; --help lists/,
      "standalone --policy x": /unknown flag "--policy"; did you mean --policies\?/,
      "policy graph --depth -1 x":
        /--depth: wanted a value, got an argument that begins with -; write --depth=VALUE/,
      "version now": /wanted only flags, got "now"/,
    };
    for (const [line, said] of Object.entries(refused)) {
      const { code, out, err } = await run(line.split(" "));
      assert.deepEqual([code, out], [64, ""], line);
      assert.match(err, said);
      assert.match(err, /^sluice: [^\n]+\n$/);
    }
  });

  it("accepts help before the command, and --version", async () => {
    const { code, out } = await run(["help", "policy", "check"]);
    assert.equal(code, 0);
    assert.match(out, /^sluice policy check/);
    for (const flag of ["--version", "-v"]) assert.match((await run([flag])).out, /^sluice \d/);
    const facts = JSON.parse((await run(["version", "--json"])).out);
    assert.equal(facts.node, process.versions.node);
    assert.deepEqual(Object.keys(facts), ["version", "node", "platform", "arch"]);
  });
});

for (const [process, other] of [
  ["agent", "a controller"],
  ["controller", "its agents"],
] as const) {
  describe(`sluice ${process}`, () => {
    it("names the store that it lacks, and what to run instead, with code 64", async () => {
      const { code, out, err } = await run([process]);
      assert.deepEqual([code, out], [64, ""]);
      assert.match(err, new RegExp(`^sluice: the ${process} shares its store with ${other}: `));
      assert.match(err, /etcd\.endpoints, got none; `sluice standalone /);
      assert.equal(err.trimEnd().split("\n").length, 1);
    });

    it("reads its own configuration first", async () => {
      const name = `SVC_${process.toUpperCase()}_LOG_LEVEL`;
      const { code, err } = await run([process], { env: { [name]: "loud" } });
      assert.equal(code, 64);
      assert.match(err, new RegExp(`${name}.*log\\.level|log\\.level.*${name}`));
    });

    it("has help that lists its configuration command too", async () => {
      const { code, out } = await run([process, "--help"]);
      assert.equal(code, 0);
      assert.match(out, new RegExp(`^sluice ${process} config `, "m"));
    });
  });
}

describe("sluice agent config", () => {
  it("prints where each value came from, and no secret", async () => {
    const env = {
      SVC_AGENT_AGENT_INFO_AGENT_GROUP: "blue",
      SVC_AGENT_ETCD_USERNAME: "ann",
      SVC_AGENT_ETCD_PASSWORD: "hunter2",
    };
    for (const args of [
      ["agent", "config"],
      ["agent", "config", "--json"],
    ]) {
      const { code, out } = await run(args, { env });
      assert.equal(code, 0);
      assert.match(out, /blue/);
      assert.match(out, /SVC_AGENT_AGENT_INFO_AGENT_GROUP/);
      assert.doesNotMatch(out, /hunter2/);
      assert.match(out, /\*\*\*/);
    }
    const controller = await run(["controller", "config"], {
      env: { SVC_CONTROLLER_LOG_LEVEL: "debug" },
    });
    assert.match(controller.out, /SVC_CONTROLLER_LOG_LEVEL/);
  });
});
