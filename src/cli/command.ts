// A subcommand: a function of its arguments and a terminal that returns an exit code. Tests pass their own
// terminal.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { Fault } from "#base/fault.ts";
import { nearest } from "#base/text/spelling.ts";
import { textOf } from "#runtime/life/text-file.ts";

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** The streams that a person reads on a terminal; none when absent. */
  readonly isTty?: { readonly out: boolean; readonly err: boolean };
}

export type Command = (args: readonly string[], terminal: Terminal) => Promise<number>;

/**
 * Parses options and, if `rest` is true, positional arguments. `_` and `-` in option names are equivalent. Throws a
 * Fault INVALID_ARGUMENT for unknown options.
 */
export function readArgs<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  rest = false,
) {
  const parsed = parsedArgs(args, options, rest);
  refuseRepeated(parsed.tokens, options);
  return parsed;
}

function parsedArgs<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  rest: boolean,
) {
  try {
    const given = hyphenated(args);
    return parseArgs({ args: given, options, allowPositionals: rest, strict: true, tokens: true });
  } catch (thrown) {
    throw new Fault("INVALID_ARGUMENT", parseFailure(thrown, Object.keys(options)), {
      cause: thrown,
    });
  }
}

/** The parser would take the last of several values. */
function refuseRepeated(
  tokens: readonly { readonly kind: string; readonly name?: string }[],
  options: ParseArgsOptionsConfig,
): void {
  const given = new Set<string>();
  for (const { kind, name = "" } of tokens) {
    const option = options[name];
    if (kind !== "option" || option?.multiple || option?.type === "boolean") continue;
    if (given.has(name))
      throw new Fault("INVALID_ARGUMENT", `--${name}: wanted it once, got it again`);
    given.add(name);
  }
}

/** The parser's message in one line; for an unknown flag, with a suggestion. */
function parseFailure(thrown: unknown, names: readonly string[]): string {
  const message = thrown instanceof Error ? thrown.message.replaceAll("\n", " ") : "bad arguments";
  const [, unknown] = /^Unknown option '(-[^']*)'/.exec(message) ?? [];
  if (unknown === undefined) return misuse(message);
  const known = names.map((name) => `--${name}`);
  // `--policy` is as near to `--policies` as a singular is to its plural.
  const near = unknown.startsWith("--")
    ? (nearest(unknown, known) ?? nearest(unknown.replace(/y$/, "ies"), known))
    : undefined;
  const hint = near === undefined ? "" : `did you mean ${near}? `;
  return `unknown flag ${JSON.stringify(unknown)}; ${hint}--help lists all flags`;
}

/** Describes the fault of a known flag or an argument. Falls back to the parser's own message. */
function misuse(message: string): string {
  const [, flag] = /^Option '(?:-\w, )?(--[\w-]+)/.exec(message) ?? [];
  const [, argument] = /^Unexpected argument '(.*)'\. This command/.exec(message) ?? [];
  if (argument !== undefined) return `wanted only flags, got ${JSON.stringify(argument)}`;
  if (flag === undefined) return message;
  if (message.includes("argument missing")) return `${flag}: wanted a value, got none`;
  if (message.includes("does not take an argument")) return `${flag}: wanted no value, got one`;
  if (!message.includes("is ambiguous")) return message;
  return `${flag}: wanted a value, got an argument that begins with -; write ${flag}=VALUE for such a value`;
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
  return textOf("-", Buffer.concat(chunks));
}

/** Turns `--config_path=a_b` into `--config-path=a_b`. Arguments after a lone `--` are not options. */
function hyphenated(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    if (!arg.startsWith("--") || (end !== -1 && at >= end)) return arg;
    const [name = "", ...value] = arg.split("=");
    return [name.replaceAll("_", "-"), ...value].join("=");
  });
}
