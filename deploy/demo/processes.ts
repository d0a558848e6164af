// Starts the processes of a demo in order, on ports of this machine, and stops them in reverse order, however the demo
// ends.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const ROOT = join(import.meta.dirname, "../..");

/** An error that the user can fix, printed without a stack. */
export class DemoError extends Error {}

export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** A program that a demo runs. */
export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** Ready once its output matches; without it, as soon as it runs. */
  readonly started?: RegExp;
  readonly env?: Readonly<Record<string, string>>;
  /** If it ends by itself after it was ready, start it again after this time, ms. Otherwise its end ends the demo. */
  readonly restartMs?: number;
}

interface Child<Role> {
  readonly name: Role;
  process: ChildProcess;
  wasReady: boolean;
}

/** The processes of one demo, each named by its role, and the port of each role. */
export class DemoProcesses<Role extends string> {
  /** Temporary folder, removed when the demo ends. */
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  readonly #ports: Readonly<Record<Role, number>>;
  readonly #shift: number;
  readonly #children: Child<Role>[] = [];
  readonly #stop = new AbortController();
  #failure: DemoError | undefined;

  /** All ports are moved by `shift`. */
  constructor(ports: Readonly<Record<Role, number>>, shift: number) {
    this.#ports = ports;
    this.#shift = shift;
    process.once("exit", () => {
      for (const { process } of this.#children) process.kill("SIGKILL");
      rmSync(this.folder, { recursive: true, force: true });
    });
    for (const signal of ["SIGINT", "SIGTERM"] as const)
      process.on(signal, () => this.#stop.abort());
  }

  /** Aborted on Ctrl-C, or when a process has ended by itself. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  url(role: Role): string {
    return `http://127.0.0.1:${this.port(role)}`;
  }

  port(role: Role): number {
    return this.#ports[role] + this.#shift;
  }

  /** Runs `play`, then stops all processes. Throws its error, unless the stop caused it. */
  async run(play: () => Promise<void>): Promise<void> {
    try {
      await play();
    } catch (thrown) {
      if (!this.stop.aborted) throw thrown;
    } finally {
      await this.#end();
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** The process of this role that runs now; undefined while none does. */
  pid(role: Role): number | undefined {
    const child = this.#children.find(({ name }) => name === role)?.process;
    return child === undefined || hasEnded(child) ? undefined : child.pid;
  }

  /** All that run now, that of the demo itself included. */
  get pids(): readonly number[] {
    const children = this.#children.filter(({ process }) => !hasEnded(process));
    return [process.pid, ...children.flatMap(({ process: { pid } }) => pid ?? [])];
  }

  /** Starts a program. Resolves when it is ready. */
  async spawn(name: Role, program: Program): Promise<void> {
    const child = { name, process: this.#launch(program), wasReady: false };
    this.#children.push(child);
    await this.#follow(child, program);
  }

  #launch({ command, args, env = {} }: Program): ChildProcess {
    return spawn(command, args, {
      cwd: ROOT,
      env: { ...process.env, ...env },
      // Outside the terminal's process group: Ctrl-C reaches only the demo, which stops the processes in order.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** Resolves when the process is ready. Its end is followed from then on, too. */
  #follow(child: Child<Role>, program: Program): Promise<void> {
    const { process: running } = child;
    const { started, restartMs } = program;
    return new Promise((resolve, reject) => {
      let output = "";
      const ready = () => {
        child.wasReady = true;
        resolve();
      };
      const hear = (text: string) => {
        output = `${output}${text}`.slice(-4_000);
        if (started?.test(output)) ready();
      };
      running.stdout?.setEncoding("utf8").on("data", hear);
      running.stderr?.setEncoding("utf8").on("data", hear);
      running.once("error", reject);
      running.once("exit", (code, signal) => {
        if (this.stop.aborted) return;
        if (restartMs !== undefined && child.wasReady) {
          void this.#restartLater(child, program, restartMs);
          return;
        }
        this.#failure = new DemoError(`${child.name} ended with ${code ?? signal}:\n${output}`);
        this.#stop.abort();
        reject(this.#failure);
      });
      if (started === undefined) ready();
    });
  }

  async #restartLater(child: Child<Role>, program: Program, restartMs: number): Promise<void> {
    await sleep(restartMs, undefined, { signal: this.stop }).catch(() => undefined);
    if (this.stop.aborted) return;
    child.process = this.#launch(program);
    await this.#follow(child, program);
  }

  /** Waits until a GET of the URL succeeds. */
  async answers(url: string): Promise<void> {
    const signal = this.stop;
    for (;;) {
      const ready = await fetch(url, { signal }).then(
        (reply) => reply.ok,
        () => false,
      );
      if (ready) return;
      await sleep(50, undefined, { signal });
    }
  }

  async mustBeFree(role: Role): Promise<void> {
    const port = this.port(role);
    const server = createServer();
    const taken = await new Promise((resolve) => {
      server.once("error", resolve);
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(undefined)));
    });
    if (taken === undefined) return;
    // `make` takes no flags, and the Node that it uses need not be that of the shell.
    const script = relative(ROOT, process.argv[1] ?? "");
    const command = `npm exec -- node ${script} --shift ${this.#shift + 1_000}`;
    const remedy = `stop the process that listens there, or move all ports: ${command}`;
    throw new DemoError(`port ${port}, which ${role} needs, is in use: ${remedy}`);
  }

  /** Stops the processes in the reverse order of their start, so that none loses one that it still uses. */
  async #end(): Promise<void> {
    this.#stop.abort();
    for (const { process: child } of this.#children.toReversed()) {
      if (hasEnded(child)) continue;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(late);
    }
    if (this.#children.length > 0) print("All processes have been stopped.");
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Runs a demo to its end. Errors that the user can fix are printed without a stack. */
export async function main(name: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    const expected =
      thrown instanceof DemoError || (thrown instanceof TypeError && "code" in thrown);
    process.stderr.write(`${name}: ${expected ? thrown.message : String(thrown)}\n`);
    process.exitCode = 1;
  }
}

export function wholeNumber(flag: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new DemoError(`--${flag}: wanted a whole number from ${least} to ${most}, got ${text}`);
}
