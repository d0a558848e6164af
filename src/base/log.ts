// The log as every room sees it: a message and named fields at one of four levels. Where lines go and what they
// look like is decided in `telemetry/log`; a room that logs takes this interface as an argument.

/** Named values of a log line. `error` is for what was thrown: it is written as text, with a stack if unforeseen. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** The same log, with `component` in every line. */
  child(component: string): Log;
}
