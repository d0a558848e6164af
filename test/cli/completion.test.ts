// Completion in real shells: what they offer after a part of a command line.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { onPath } from "../../deploy/tools/machine.ts";
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
  ["sluice policy ", ["check", "expand", "graph"]],
  ["sluice policy check --st", ["--strict"]],
  ["sluice policy graph --format ", ["dot", "json", "mermaid"]],
  ["sluice completion ", ["bash", "fish", "zsh"]],
  ["sluice agent --conf", ["--config-path"]],
  ["sluice agent config --js", ["--json"]],
];

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
    for (const [line, words] of OFFERED) {
      const { stdout } = await run("bash", ["-c", BASH, "bash", script, line]);
      assert.deepEqual(stdout.trim().split("\n").sort(), words, line);
    }
  });

  it("in fish", { skip: !onPath("fish") && "fish is not installed" }, async (t) => {
    const script = await scriptFor(t, "fish");
    for (const [line, words] of OFFERED) {
      const command = `source ${script}; complete -C '${line}'`;
      const { stdout } = await run("fish", ["--no-config", "-c", command]);
      const offered = stdout
        .trim()
        .split("\n")
        .map((each) => each.split("\t")[0]);
      assert.deepEqual(offered.sort(), words, line);
    }
  });

  it("in zsh", { skip: !onPath("zsh") && "zsh is not installed" }, async (t) => {
    const script = await scriptFor(t, "zsh");
    const { stdout } = await run("zsh", ["-f", "-c", ZSH, "zsh", script], { timeout: 60_000 });
    assert.equal(stdout.trim(), "done");
  });

  it("refuses other shells, and names every command and flag that the help lists", async () => {
    for (const args of [[], ["tcsh"], ["bash", "zsh"]]) {
      const { code, err } = await runCommand(["completion", ...args]);
      assert.equal(code, 64);
      assert.match(err, /completion: wanted bash, zsh, fish, got/);
    }
    const { out } = await runCommand(["help"]);
    const commands = [...out.matchAll(/^ {2}sluice ([a-z]+)/gm)].map(([, name = ""]) => name);
    for (const shell of ["bash", "zsh", "fish"]) {
      const script = (await runCommand(["completion", shell])).out;
      for (const name of commands) assert.ok(script.includes(name), `${shell}: ${name}`);
    }
  });
});
