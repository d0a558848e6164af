// Child processes of tests: their output is collected, and they are killed when the test ends.

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { Ending } from "../ending.ts";
import { until } from "../until.ts";

export interface Child {
  readonly process: ChildProcess;
  /** Standard output and standard error so far. */
  readonly out: () => string;
  readonly err: () => string;
  /** Resolves with the exit code, or with the signal that ended the process. */
  readonly ended: Promise<number | NodeJS.Signals>;
  kill(signal?: NodeJS.Signals): void;
  /** Stops it from running until it gets SIGCONT: the system still accepts connections, and nothing is answered. */
  freeze(): Promise<void>;
  /** Resolves when `holds` returns true. Rejects with the whole output when the process ends first. */
  until(what: string, holds: () => boolean): Promise<void>;
}

export function child(
  test: Ending,
  command: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Child {
  const process = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  let ending: number | NodeJS.Signals | undefined;
  process.stdout?.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  process.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
    process.once("error", reject);
    process.once("close", (code, signal) => {
      ending = code ?? signal ?? -1;
      resolve(ending);
    });
  });
  test.after(async () => {
    process.kill("SIGKILL");
    await ended;
  });
  return {
    process,
    out: () => out,
    err: () => err,
    ended,
    kill: (signal = "SIGTERM") => void process.kill(signal),
    async freeze() {
      process.kill("SIGSTOP");
      // Until the signal is delivered, a request may still be answered.
      await until("the process is stopped", () => isStopped(process.pid));
    },
    async until(what, holds) {
      const printed = () => `${command} ${args.join(" ")}\n${out}${err}`;
      try {
        await until(what, () => {
          if (ending !== undefined && !holds()) throw new Error(`${what}: ended with ${ending}`);
          return holds();
        });
      } catch (cause) {
        throw new Error(`${String(cause)}\n${printed()}`, { cause });
      }
    },
  };
}

/** True if every thread is stopped. Assumes so where there is no /proc. */
function isStopped(pid: number | undefined): boolean {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return true;
  return readdirSync(tasks).every((task) => {
    const stat = readFileSync(`${tasks}/${task}/stat`, "utf8");
    return /^[Tt]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  });
}
