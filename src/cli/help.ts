// What `sluice help` and `sluice COMMAND --help` print, and the message for an unknown command.

import { nearest } from "#base/text/spelling.ts";
import { EXIT } from "#runtime/life/run.ts";
import { argumentsOf } from "./flags.ts";
import { SUBCOMMANDS, type SubcommandName } from "./subcommands.ts";

/** The text of `sluice help`. */
export function usage(): string {
  const rows = Object.entries(SUBCOMMANDS).map(([name, { usage, about }]) =>
    `  sluice ${name} ${usage}`.trimEnd().concat(`\n      ${about}`),
  );
  return `Flow control for services and meshes.\n\n${rows.join("\n")}\n\n${MORE}\n`;
}

const MORE = `sluice <command> --help lists the flags of a command.

Exit codes: ${EXIT.clean} success, or "yes"; ${EXIT.refused} "no": a request was refused, a policy has faults or is not applied by all agents,
an expectation failed;
${EXIT.usage} the command line, the configuration or a file cannot be used; ${EXIT.unavailable} the address is in use
or no agent answers; ${EXIT.internal} any other error.`;

/** The text of `sluice COMMAND --help`. */
function usageOf(name: string): string {
  const { usage, about, flags } = SUBCOMMANDS[name as SubcommandName];
  const forms = { ...flags, "--help": "print this help" };
  const width = Math.max(...Object.keys(forms).map((form) => form.length));
  const lines = argumentsOf(forms).map(({ form, about: meaning, repeated }) => {
    const often = repeated ? "; may be repeated" : "";
    return `  ${form.padEnd(width)}  ${meaning}${often}`;
  });
  return `sluice ${name} ${usage}`.trimEnd().concat(`\n  ${about}\n\n${lines.join("\n")}\n`);
}

/** Help for one command (`policy check`), or for all that begin with a word (`policy`, `agent`); "" if none do. */
export function helpFor(first: string, second: string): string {
  const both = `${first} ${second}`;
  const names = Object.keys(SUBCOMMANDS);
  const found = names.includes(both)
    ? [both]
    : names.filter((name) => name === first || name.startsWith(`${first} `));
  return found.map(usageOf).join("\n");
}

/** The message for an unknown command, with the command that was probably meant. */
export function unknownCommand(first: string, second: string): string {
  const names = Object.keys(SUBCOMMANDS);
  const group = names.filter((name) => name.startsWith(`${first} `));
  const [got, meant] =
    group.length === 0
      ? [first, nearest(`${first} ${second}`, names) ?? nearest(first, names)]
      : [`${first} ${second}`.trimEnd(), nearest(`${first} ${second}`, group) ?? group.join(", ")];
  const hint = meant === undefined ? "" : `did you mean ${meant}? `;
  return `no such command, ${JSON.stringify(got)}; ${hint}sluice help lists them`;
}
