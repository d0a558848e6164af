// Logs for tests: one that remembers its lines, and one that writes nothing.

import type { Log, LogFields } from "#base/log.ts";

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

export function memoryLog(): MemoryLog {
  const lines: LogLine[] = [];
  const log = logTo((level, fields, message) => void lines.push({ level, message, fields }));
  return { lines, ...log };
}

/** A log that hands every line to a function; children hand theirs to the same one, from their own level on. */
export function logTo(take: (level: Level, fields: LogFields, message: string) => void): Log {
  const log: Log = {
    trace: (fields, message) => take("trace", fields, message),
    debug: (fields, message) => take("debug", fields, message),
    info: (fields, message) => take("info", fields, message),
    warn: (fields, message) => take("warn", fields, message),
    error: (fields, message) => take("error", fields, message),
    child: (_, least = "trace") => {
      const from = LEVELS.indexOf(least);
      if (from === 0) return log;
      return logTo((level, fields, message) => {
        if (LEVELS.indexOf(level) >= from) take(level, fields, message);
      });
    },
  };
  return log;
}

export function silentLog(): Log {
  return logTo(() => undefined);
}
