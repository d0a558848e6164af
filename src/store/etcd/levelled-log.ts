// The log of the etcd client, which has a level of its own (`etcd.log_level`).

import type { Log } from "#base/log.ts";

const LEVELS: readonly string[] = ["debug", "info", "warn", "error"];

/** The log without lines below `level`, in any case of letters. Empty means error; so does every level above it. */
export function levelledLog(log: Log, level: string): Log {
  const at = LEVELS.indexOf(level.toLowerCase());
  const least = at < 0 ? LEVELS.indexOf("error") : at;
  const line =
    (each: "debug" | "info" | "warn" | "error"): Log["info"] =>
    (fields, message) => {
      if (LEVELS.indexOf(each) >= least) log[each](fields, message);
    };
  return {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    child: (component) => levelledLog(log.child(component), level),
  };
}
