// The log as every room sees it: a message and named fields at one of five levels. Where lines go and what they
// look like is decided in `telemetry/log`; a room that logs takes this interface as an argument.

/** Named values of a log line. `error` is for what was thrown: it is written as text, with a stack if unforeseen. */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLine = (fields: LogFields, message: string) => void;

export interface Log {
  /** One line for each message, tick or sample. Like `debug`, to be read from the log for each line, since the level may change. */
  readonly trace: LogLine | undefined;
  /**
   * One line for each event. Undefined while such lines are not written, so that `log.debug?.({ … }, "…")` then costs
   * one comparison and builds no fields. The level changes while the process runs: do not keep the function.
   */
  readonly debug: LogLine | undefined;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /**
   * The log of a component, whose name is in every line; the same one for each caller. `level` is for a component whose
   * level has a configuration key of its own.
   */
  child(component: string, level?: string): Log;
}
