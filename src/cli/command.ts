// What a subcommand is: arguments and a terminal in, an exit code out. Tests hand in their own terminal.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { Fault } from "#base/fault.ts";
import { nearest } from "#base/near.ts";

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
    throw new Fault("INVALID_ARGUMENT", whyUnread(thrown, Object.keys(options)), { cause: thrown });
  }
}

/** In one line; flags that nobody knows with the one that was meant. */
function whyUnread(thrown: unknown, names: readonly string[]): string {
  const told = thrown instanceof Error ? thrown.message.replaceAll("\n", " ") : "bad arguments";
  const [, unknown] = /^Unknown option '(-[^']*)'/.exec(told) ?? [];
  if (unknown === undefined) return told;
  const known = names.map((name) => `--${name}`);
  const near = unknown.startsWith("--") ? nearest(unknown, known) : undefined;
  const hint = near === undefined ? "" : `did you mean ${near}? `;
  return `unknown flag ${JSON.stringify(unknown)}; ${hint}--help lists those there are`;
}

/** All of standard input, as UTF-8. */
export async function readInput({ stdin }: Terminal, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > maxBytes) {
      throw new Fault("INVALID_ARGUMENT", `-: wanted at most ${maxBytes} bytes, got more`);
    }
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString();
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
