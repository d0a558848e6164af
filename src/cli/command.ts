// What a subcommand is: arguments and a terminal in, an exit code out. Tests hand in their own terminal.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { Fault } from "#base/fault.ts";

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Uint8Array | string>;
}

export type Command = (args: readonly string[], terminal: Terminal) => Promise<number>;

/** Options and the rest; a Fault INVALID_ARGUMENT on anything unknown. */
export function readArgs<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  rest = false,
) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: rest, strict: true });
  } catch (thrown) {
    const told = thrown instanceof Error ? thrown.message : "bad arguments";
    throw new Fault("INVALID_ARGUMENT", told, { cause: thrown });
  }
}
