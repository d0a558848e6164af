// All faults of a configuration at once: for each its position, what was wanted and what was found. Values of secret keys
// never appear.

import { Fault } from "#base/fault.ts";
import type { ProcessName } from "./tree.ts";

export interface ConfigError {
  readonly process: ProcessName;
  /** Dotted key path; empty when the fault is about a whole file or an unknown name. */
  readonly path: string;
  /** `file:line:column`, the name of a variable, or a dotenv file, its line and the name. */
  readonly where: string;
  readonly wanted: string;
  readonly got: string;
}

/** One line of a report: `key (where): wanted …, got …`. */
function errorLine({ path, where, wanted, got }: ConfigError): string {
  const place = path === "" ? where : where === "" ? path : `${path} (${where})`;
  return `${place}: wanted ${wanted}, got ${got}`;
}

/** The lines of a report. Where several trees have faults, each line begins with those that have this one. */
function errorLines(
  errors: readonly ConfigError[],
  processes: readonly string[],
): readonly string[] {
  const faulty = new Map<string, Set<string>>();
  for (const error of errors) {
    const line = errorLine(error);
    faulty.set(line, (faulty.get(line) ?? new Set()).add(error.process));
  }
  return [...faulty].map(([line, of]) =>
    processes.length === 1 ? line : `${[...of].join(" and ")}: ${line}`,
  );
}

function report(errors: readonly ConfigError[]): string {
  const processes = [...new Set(errors.map(({ process }) => process))];
  const lines = errorLines(errors, processes);
  const count = lines.length === 1 ? "a fault" : `${lines.length} faults`;
  return [`configuration of ${processes.join(" and ")} has ${count}`, ...lines].join("\n  ");
}

/** Ends the process with exit code 64. */
export class ConfigFault extends Fault {
  readonly errors: readonly ConfigError[];

  constructor(errors: readonly ConfigError[]) {
    super("INVALID_ARGUMENT", report(errors));
    this.name = "ConfigFault";
    this.errors = errors;
  }

  /** One fault with those of several trees, for a process that reads more than one. */
  static join(faults: readonly ConfigFault[]): ConfigFault {
    return new ConfigFault(faults.flatMap(({ errors }) => errors));
  }
}
