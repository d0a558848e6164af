// The operating system as `run` sees it, for real: arguments, environment, signals and exit of this process.

import type { Clock } from "#base/clock.ts";
import type { OperatingSystem } from "./run.ts";

/** Milliseconds, about 12 days. The timer only keeps the event loop alive and does nothing when it fires. */
const KEEP_ALIVE_MS = 2 ** 30;

export function operatingSystem(clock: Clock): OperatingSystem {
  return {
    argv: process.argv.slice(2),
    env: process.env,
    clock,
    stderr: (text) => void process.stderr.write(text),
    exit(code, force) {
      if (force) replaceProcess(code);
      process.exit(code);
    },
    on: (event, listener) => void process.on(event, listener),
    off: (event, listener) => void process.off(event, listener),
    keepAlive() {
      const timer = setInterval(() => undefined, KEEP_ALIVE_MS);
      return () => clearInterval(timer);
    },
  };
}

/**
 * Ends the process with `code` whatever its threads do. An ordinary exit waits for the threads that read files, and one
 * that opens a pipe nobody writes to, or a disk that no longer answers, never returns. Signals would end the process
 * as well, but with a code of their own. Returns where the platform cannot replace a process.
 */
function replaceProcess(code: number): void {
  const { execPath, env } = process;
  try {
    const args = [execPath, "--eval", `process.exit(${code})`];
    process.execve?.(execPath, args, { ...env, NODE_OPTIONS: "" });
  } catch {
    // The ordinary exit follows.
  }
}
