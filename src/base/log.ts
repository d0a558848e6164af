// The log interface that rooms take as an argument: a message and named fields at one of five levels. `telemetry/log`
// decides where lines go and their form.

/** `error` is for exceptions: it is written as text, with a stack if unforeseen. */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLine = (fields: LogFields, message: string) => void;

export interface Log {
  /** One line for each message, tick or sample. Like `debug`, read it for each line, since the level may change. */
  readonly trace: LogLine | undefined;
  /**
   * One line for each event. Undefined while such lines are off, so that `log.debug?.({ … }, "…")` then costs one
   * comparison and builds no fields. The level changes at run time: do not keep the function.
   */
  readonly debug: LogLine | undefined;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /**
   * The log of a component, whose name is in every line. `level` is for a component with a level of its own in the
   * configuration.
   */
  child(component: string, level?: string): Log;
}
