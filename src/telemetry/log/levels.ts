// The levels of a log: one for each component, which can be changed while the process runs.

import { Fault } from "#base/fault.ts";

const LEVELS: Readonly<Record<string, string>> = {
  "": "info",
  trace: "trace",
  debug: "debug",
  info: "info",
  warn: "warn",
  error: "error",
  fatal: "fatal",
  panic: "fatal",
  disabled: "silent",
};

/** The name, among those of components, for the lines that name no component. */
export const NO_COMPONENT = "process";

/** The level of `log.level` in the library's words. @throws Fault INVALID_ARGUMENT */
export function levelOf(text: string): string {
  const level = LEVELS[text.toLowerCase()];
  if (level !== undefined) return level;
  throw new Fault("INVALID_ARGUMENT", `log.level: wanted one of ${Object.keys(LEVELS).join(" ")}`);
}

interface Levelled {
  level: string;
}

/** The levels in force until the process ends. A change for one component takes precedence over a change for all. */
export class LogLevels {
  readonly #configured: string;
  #all: string | undefined;
  readonly #components = new Map<
    string,
    { readonly logger: Levelled; readonly configured: string; changed: string | undefined }
  >();

  readonly #changed: (component: string, level: string) => void;

  /** `configured` is a level in the library's words. `changed` is called with each change; "configured" undoes one. */
  constructor(configured: string, changed: (component: string, level: string) => void) {
    this.#configured = configured;
    this.#changed = changed;
  }

  /** Sets the level of a component's logger from now on. */
  add(component: string, logger: Levelled, own = this.#configured): void {
    const configured = this.#configured === "silent" ? "silent" : own;
    this.#components.set(component, { logger, configured, changed: undefined });
    this.#apply();
  }

  /** By component, in the order of their names. */
  get current(): Readonly<Record<string, string>> {
    const names = [...this.#components.keys()].sort();
    const levels = names.map((name) => [name, shown(this.#of(name).logger.level)]);
    return Object.fromEntries(levels);
  }

  /**
   * Changes the level of a component, or of all where `component` is undefined; an undefined `level` brings back what the
   * configuration says. A change for all undoes those for single components.
   * @throws Fault NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION
   */
  change(component: string | undefined, level: string | undefined): void {
    if (this.#configured === "silent")
      throw new Fault("FAILED_PRECONDITION", "log.level is disabled: this process has no log");
    const of = component === undefined ? undefined : this.#of(component);
    const to = level?.toLowerCase();
    if (to !== undefined && !CHANGEABLE.includes(to)) {
      const got = to === "" ? "none" : JSON.stringify(level);
      throw new Fault(
        "INVALID_ARGUMENT",
        `level: wanted one of ${CHANGEABLE.join(" ")}, got ${got}`,
      );
    }
    if (of !== undefined) of.changed = to;
    else {
      this.#all = to;
      for (const each of this.#components.values()) each.changed = undefined;
    }
    this.#apply();
    this.#changed(component ?? "all", to ?? "configured");
  }

  #of(component: string) {
    const found = this.#components.get(component);
    if (found !== undefined) return found;
    const names = Object.keys(this.current).join(" ");
    throw new Fault("NOT_FOUND", `wanted one of the components ${names}, got ${component}`);
  }

  #apply(): void {
    for (const { logger, configured, changed } of this.#components.values())
      logger.level = changed ?? this.#all ?? configured;
  }
}

/** A level as the configuration calls it. */
function shown(level: string): string {
  return level === "silent" ? "disabled" : level;
}

const CHANGEABLE: readonly string[] = ["trace", "debug", "info", "warn", "error", "fatal"];
