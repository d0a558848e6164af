// Starts the processes of a demo in order, on ports of this machine, and stops them in reverse order, however the demo
// ends.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { envoy } from "../tools/install.ts";

const ROOT = join(import.meta.dirname, "../..");
const PORTS = {
  Sluice: 8080,
  service: 9000,
  Prometheus: 9090,
  "Envoy's admin": 9901,
  Envoy: 10_000,
} as const;
export type Role = keyof typeof PORTS;

/** An error that the user can fix, printed without a stack. */
export class DemoError extends Error {}

export const print = (text: string): void => void process.stdout.write(`${text}\n`);

export interface Sidecar {
  /** Directory of policy documents. */
  readonly policies: string;
  /** The service: a script, whose first argument is its port and which prints `on ADDRESS` when it listens, and more arguments. */
  readonly service: readonly string[];
  /** Settings of Sluice on top of those that every demo needs. */
  readonly env?: Readonly<Record<string, string>>;
}

export class DemoProcesses {
  /** Temporary folder, removed when the demo ends. */
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  readonly #shift: number;
  readonly #children: { readonly name: Role; readonly process: ChildProcess }[] = [];
  readonly #stop = new AbortController();
  #failure: DemoError | undefined;

  /** All ports are moved by `shift`. */
  constructor(shift: number) {
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
    return PORTS[role] + this.#shift;
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

  /** Starts the service, Sluice with the policies, and Envoy. Resolves when all of them are ready. */
  async start({ policies, service, env = {} }: Sidecar): Promise<void> {
    const binary = envoy();
    for (const role of ["Sluice", "service", "Envoy's admin", "Envoy"] as const)
      await this.mustBeFree(role);
    const bootstrap = join(this.folder, "envoy.yaml");
    writeFileSync(bootstrap, this.#bootstrap());
    const [script = "", ...flags] = service;
    const port = String(this.port("service"));
    await this.spawn("service", process.execPath, [script, port, ...flags], / on 127/);
    const sluice = ["src/cli/sluice.js", "standalone", "--policies", policies];
    await this.spawn("Sluice", process.execPath, sluice, /listening on/, {
      SVC_AGENT_SERVER_LISTENER_ADDR: `127.0.0.1:${this.port("Sluice")}`,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
      SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
      SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
      SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
      ...env,
    });
    const quiet = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"];
    await this.spawn("Envoy", binary, ["--config-path", bootstrap, ...quiet]);
    await this.answers(`${this.url("Envoy's admin")}/ready`);
  }

  /** Resolves when the output matches `started`, or at once without it. A process that ends early ends the demo. */
  spawn(
    name: Role,
    command: string,
    args: readonly string[],
    started?: RegExp,
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const child = spawn(command, args, {
      cwd: ROOT,
      env: { ...process.env, ...env },
      // Outside the terminal's process group: Ctrl-C reaches only the demo, which stops the processes in order.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#children.push({ name, process: child });
    return new Promise((resolve, reject) => {
      let output = "";
      const hear = (text: string) => {
        output = `${output}${text}`.slice(-4_000);
        if (started?.test(output)) resolve();
      };
      child.stdout.setEncoding("utf8").on("data", hear);
      child.stderr.setEncoding("utf8").on("data", hear);
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        if (this.stop.aborted) return;
        this.#failure = new DemoError(`${name} ended with ${code ?? signal}:\n${output}`);
        this.#stop.abort();
        reject(this.#failure);
      });
      if (started === undefined) resolve();
    });
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
    const remedy = "stop the process that listens there, or move all ports with --shift 1000";
    throw new DemoError(`port ${port}, which ${role} needs, is in use: ${remedy}`);
  }

  /** The bootstrap file that users copy, with all ports moved by `shift`. */
  #bootstrap(): string {
    const text = readFileSync(join(ROOT, "deploy/envoy/sidecar.yaml"), "utf8");
    return text.replaceAll(
      /port_value: (\d+)/g,
      (_, port: string) => `port_value: ${Number(port) + this.#shift}`,
    );
  }

  /** Stops the processes in the reverse order of their start, so that none loses one that it still uses. */
  async #end(): Promise<void> {
    this.#stop.abort();
    for (const { process: child } of this.#children.toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(late);
    }
    if (this.#children.length > 0) print("All processes have been stopped.");
  }
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
