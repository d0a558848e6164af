// Parses the command line of a subcommand. The help text of a flag, such as `--config-path PATH`, is its only declaration:
// its form gives the type of its value.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { Fault } from "#base/fault.ts";
import { nearest } from "#base/text/spelling.ts";

/**
 * What a subcommand takes, by the forms that its help shows. `--json` is a switch, `--name NAME` takes a value,
 * `--format a|b` takes one of these words, `--policies DIR…` may be repeated. A form without `--` is an operand.
 */
export type Forms = Readonly<Record<string, string>>;

/** The parsed flags of a subcommand. A flag that was not given has no key. */
export type FlagsOf<F extends Forms> = {
  readonly [Form in keyof F & `--${string}` as NameOf<Form>]?: ValueOf<Form> | undefined;
};

type NameOf<Form> = Form extends `--${infer Name} ${string}`
  ? Name
  : Form extends `--${infer Name}`
    ? Name
    : never;
type ValueOf<Form> = Form extends `--${string} ${infer Value}`
  ? Value extends `${string}…`
    ? readonly string[]
    : Value extends `${string}|${string}`
      ? WordOf<Value>
      : string
  : boolean;
type WordOf<Words extends string> = Words extends `${infer First}|${infer Rest}`
  ? First | WordOf<Rest>
  : Words;

export interface Arguments<F extends Forms> {
  readonly flags: FlagsOf<F>;
  readonly operands: readonly string[];
}

/** A flag or an operand, read from its form. */
export interface Argument {
  readonly form: string;
  /** Without the leading `--`; "" for an operand. */
  readonly name: string;
  /** The word that stands for the value in the help; "" for a switch. */
  readonly value: string;
  /** The accepted words, if there is a fixed list of them. */
  readonly choices: readonly string[];
  readonly repeated: boolean;
  readonly about: string;
}

export function argumentsOf(forms: Forms): readonly Argument[] {
  return Object.entries(forms).map(([form, about]) => {
    const [, name = "", words = ""] = /^(?:--(\S+) ?)?(.*)$/.exec(form) ?? [];
    const [value = ""] = words.split(/[[…]/);
    const choices = words.includes("|") ? words.split("|") : [];
    return { form, name, value, choices, repeated: words.endsWith("…"), about };
  });
}

/**
 * Parses arguments. `_` and `-` in the names of flags are equivalent. @throws Fault INVALID_ARGUMENT for unknown flags,
 * bad values, and operands of a subcommand that takes none
 */
export function parseArguments<F extends Forms>(args: readonly string[], forms: F): Arguments<F> {
  const known = argumentsOf(forms);
  const options: ParseArgsOptionsConfig = Object.fromEntries(
    known.flatMap(({ name, value, repeated }) =>
      name === ""
        ? []
        : [[name, { type: value === "" ? "boolean" : "string", multiple: repeated }]],
    ),
  );
  const allowPositionals = known.some(({ name }) => name === "");
  const { values, positionals, tokens } = parsed(args, options, allowPositionals);
  refuseRepeated(tokens, options);
  for (const { name, choices } of known) {
    const value = values[name];
    if (choices.length === 0 || typeof value !== "string" || choices.includes(value)) continue;
    const wanted = `wanted one of ${choices.join(", ")}`;
    throw new Fault("INVALID_ARGUMENT", `--${name}: ${wanted}, got ${JSON.stringify(value)}`);
  }
  // The values were parsed by the forms from which their types are inferred.
  return { flags: values as FlagsOf<F>, operands: positionals };
}

function parsed(
  args: readonly string[],
  options: ParseArgsOptionsConfig,
  allowPositionals: boolean,
) {
  try {
    const given = hyphenated(args);
    return parseArgs({ args: given, options, allowPositionals, strict: true, tokens: true });
  } catch (thrown) {
    const message = parseFailure(thrown, Object.keys(options));
    throw new Fault("INVALID_ARGUMENT", message, { cause: thrown });
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
  // The edit distance from `--policy` to `--policies` is too large for `nearest`.
  const near = unknown.startsWith("--")
    ? (nearest(unknown, known) ?? nearest(unknown.replace(/y$/, "ies"), known))
    : undefined;
  const hint = near === undefined ? "" : `did you mean ${near}? `;
  return `unknown flag ${JSON.stringify(unknown)}; ${hint}--help lists all flags`;
}

/** Explains the misuse of a known flag or an operand. Falls back to the parser's own message. */
function misuse(message: string): string {
  const [, flag] = /^Option '(?:-\w, )?(--[\w-]+)/.exec(message) ?? [];
  const [, operand] = /^Unexpected argument '(.*)'\. This command/.exec(message) ?? [];
  if (operand !== undefined) return `wanted only flags, got ${JSON.stringify(operand)}`;
  if (flag === undefined) return message;
  if (message.includes("argument missing")) return `${flag}: wanted a value, got none`;
  if (message.includes("does not take an argument")) return `${flag}: wanted no value, got one`;
  if (!message.includes("is ambiguous")) return message;
  return `${flag}: wanted a value, got an argument that begins with -; write ${flag}=VALUE for such a value`;
}

/** Turns `--config_path=a_b` into `--config-path=a_b`. Arguments after a lone `--` are operands. */
function hyphenated(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    if (!arg.startsWith("--") || (end !== -1 && at >= end)) return arg;
    const [name = "", ...value] = arg.split("=");
    return [name.replaceAll("_", "-"), ...value].join("=");
  });
}
