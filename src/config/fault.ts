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

function report(errors: readonly ConfigError[]): string {
  const processes = [...new Set(errors.map(({ process }) => process))].join(" and ");
  const count = errors.length === 1 ? "a fault" : `${errors.length} faults`;
  return [`configuration of ${processes} has ${count}`, ...errors.map(errorLine)].join("\n  ");
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
