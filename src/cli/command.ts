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

/** Options and the rest; `_` and `-` in option names are one. A Fault INVALID_ARGUMENT on anything unknown. */
export function readArgs<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  rest = false,
) {
  try {
    return parseArgs({ args: hyphenated(args), options, allowPositionals: rest, strict: true });
  } catch (thrown) {
    const told = thrown instanceof Error ? thrown.message : "bad arguments";
    throw new Fault("INVALID_ARGUMENT", told, { cause: thrown });
  }
}

/** `--config_path=a_b` as `--config-path=a_b`. What follows a lone `--` is no option. */
function hyphenated(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    if (!arg.startsWith("--") || (end !== -1 && at >= end)) return arg;
    const [name = "", ...value] = arg.split("=");
    return [name.replaceAll("_", "-"), ...value].join("=");
  });
}
