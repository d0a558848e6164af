// Logs for tests: one that remembers its lines, and one that writes nothing.

import type { Log, LogFields, LogLine as WriteLine } from "#base/log.ts";

const LEVELS: readonly string[] = ["trace", "debug", "info", "warn", "error"];

type Level = "trace" | "debug" | "info" | "warn" | "error";

export interface LogLine {
  readonly level: Level;
  readonly message: string;
  readonly fields: LogFields;
}

export interface MemoryLog extends Log {
  /** Oldest first, those of children included. */
  readonly lines: LogLine[];
}

/** Remembers lines from a level on; children with a level of their own, from that. */
export function memoryLog(least = "info"): MemoryLog {
  const lines: LogLine[] = [];
  const log = logTo((level, fields, message) => void lines.push({ level, message, fields }), least);
  return { lines, ...log };
}

/** A log that hands every line to a function; children hand theirs to the same one. */
export function logTo(
  take: (level: Level, fields: LogFields, message: string) => void,
  least = "info",
): Log {
  const at = (level: Level): WriteLine | undefined =>
    LEVELS.indexOf(level) < LEVELS.indexOf(least)
      ? undefined
      : (fields, message) => take(level, fields, message);
  const nothing = () => undefined;
  const log: Log = {
    trace: at("trace"),
    debug: at("debug"),
    info: at("info") ?? nothing,
    warn: at("warn") ?? nothing,
    error: at("error") ?? nothing,
    child: (_, own) => (own === undefined ? log : logTo(take, own)),
  };
  return log;
}

export function silentLog(): Log {
  return logTo(() => undefined);
}
