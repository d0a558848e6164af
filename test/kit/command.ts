// Runs the command `sluice` in this process, and keeps what it prints.

import { sluice } from "#cli/sluice.ts";
import type { Terminal } from "#cli/terminal.ts";

/** The output of a command on each stream, and its exit code. */
export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** `around` replaces parts of the terminal: its environment, standard input, or whether it shows colours. */
export async function runCommand(
  args: readonly string[],
  around: Partial<Terminal> = {},
): Promise<Ran> {
  let out = "";
  let err = "";
  const code = await sluice(args, {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    stdin: (async function* () {})(),
    ...around,
  });
  return { code, out, err };
}
