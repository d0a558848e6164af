// Completion in real shells: what they offer after a part of a command line.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { fish, zsh } from "../../deploy/tools/install.ts";
import { runCommand } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";

const run = promisify(execFile);

async function scriptFor(t: TestContext, shell: string): Promise<string> {
  const { out, code } = await runCommand(["completion", shell]);
  assert.equal(code, 0);
  return join(folderOf(t, { script: out }), "script");
}

/** Command lines, with what every shell offers at their ends. */
const OFFERED: readonly (readonly [line: string, words: readonly string[]])[] = [
  ["sluice pol", ["policy"]],
  ["sluice policy ", ["apply", "check", "delete", "expand", "get", "graph", "list"]],
  ["sluice policy check --st", ["--strict"]],
  ["sluice completion ", ["bash", "fish", "zsh"]],
  ["sluice agent --conf", ["--config-path"]],
  ["sluice agent config --js", ["--json"]],
];

/** Every command, as the help lists them. */
async function commands(): Promise<readonly string[]> {
  const { out } = await runCommand(["help"]);
  return [...out.matchAll(/^ {2}sluice ([a-z]+(?: [a-z]+)?)(?= |$)/gm)].map(
    ([, name = ""]) => name,
  );
}

/** The flags that the help of a command lists. */
async function flagsOf(command: string): Promise<readonly string[]> {
  const { out } = await runCommand([...command.split(" "), "--help"]);
  const own = out.split(/\n(?=sluice )/)[0] ?? "";
  return [...own.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, flag = ""]) => flag);
}

/** The words that a flag takes, as the fault about another word names them. */
async function valuesOf(command: string, flag: string): Promise<readonly string[]> {
  const { err } = await runCommand([...command.split(" "), `${flag}=other`, "none.yaml"]);
  const [, words = ""] = /: wanted (?:one of )?(.*), got "other"/.exec(err) ?? [];
  return words.split(/, | or /).sort();
}

/** Lines for all flags of each command, and for the values of flags that take certain words. */
async function fromHelp(): Promise<readonly (readonly [string, readonly string[]])[]> {
  const lines: [string, readonly string[]][] = [];
  for (const command of await commands()) {
    lines.push([`sluice ${command} --`, (await flagsOf(command)).toSorted()]);
  }
  for (const [command, flag] of [
    ["policy graph", "--format"],
    ["policy check", "--queries"],
  ] as const) {
    lines.push([`sluice ${command} ${flag} `, await valuesOf(command, flag)]);
  }
  return lines;
}

/** Prints what `_sluice` leaves in COMPREPLY for the words of a line. */
const BASH = `source "$1"; IFS=' ' read -ra COMP_WORDS <<< "$2"
[[ $2 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 )); _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;

/** Types into a shell on a pseudoterminal, and waits for what must appear: the script ends only when it does. */
const ZSH = `zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; source '$1'; print REA''DY'
zpty -r z out '*READY*'
zpty -w -n z $'sluice policy ch\\t'
zpty -r z out '*sluice policy check*'
zpty -w -n z $' --str\\t'
zpty -r z out '*--strict*'
zpty -w -n z $'; sluice comp\\t'
zpty -r z out '*completion*'
print done`;

describe("completion", () => {
  it("in bash", async (t) => {
    const script = await scriptFor(t, "bash");
    for (const [line, words] of [...OFFERED, ...(await fromHelp())]) {
      const { stdout } = await run("bash", ["-c", BASH, "bash", script, line]);
      assert.deepEqual(stdout.trim().split("\n").sort(), words, line);
    }
  });

  it("in fish", async (t) => {
    const shell = fish();
    const script = await scriptFor(t, "fish");
    for (const [line, words] of [...OFFERED, ...(await fromHelp())]) {
      const command = `source ${script}; complete -C '${line}'`;
      const { stdout } = await run(shell, ["--no-config", "-c", command]);
      const offered = stdout
        .trim()
        .split("\n")
        .map((each) => each.split("\t")[0]);
      assert.deepEqual(offered.sort(), words, line);
    }
  });

  it("in zsh", async (t) => {
    const shell = zsh();
    const script = await scriptFor(t, "zsh");
    const { stdout } = await run(shell, ["-f", "-c", ZSH, "zsh", script], { timeout: 60_000 });
    assert.equal(stdout.trim(), "done");
  });

  it("refuses other shells, and names every command and flag that the help lists", async () => {
    for (const args of [[], ["tcsh"], ["bash", "zsh"]]) {
      const { code, err } = await runCommand(["completion", ...args]);
      assert.equal(code, 64);
      assert.match(err, /completion: wanted bash, zsh, fish, got/);
    }
    const all = await commands();
    assert.ok(all.includes("policy check") && all.includes("standalone"), all.join());
    for (const shell of ["bash", "zsh", "fish"]) {
      const script = (await runCommand(["completion", shell])).out;
      for (const name of all) for (const word of name.split(" ")) assert.ok(script.includes(word));
    }
    // Typing into zsh is slow, so the rest of its flags are looked up in the script.
    const lines = (await runCommand(["completion", "zsh"])).out.split("\n");
    for (const name of all) {
      const line = lines.find((each) => each.startsWith(`    ('${name}') _arguments `)) ?? "";
      for (const flag of await flagsOf(name))
        assert.ok(line.includes(`'*${flag}[`), `${name} ${flag}`);
    }
  });
});
