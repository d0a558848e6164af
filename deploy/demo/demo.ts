// The demo: a service, Sluice and real Envoy on this machine, traffic of a few users, and a policy that is
// edited while it runs. Everything that it starts it stops again.

import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { envoy } from "../../test/tools/install.ts";

const ROOT = join(import.meta.dirname, "../..");
const PORTS = { Sluice: 8080, service: 9000, "Envoy's admin": 9901, Envoy: 10_000 } as const;

interface User {
  readonly name: string;
  /** The header `x-user`; undefined sends none. */
  readonly header: string | undefined;
  readonly path: string;
  readonly perSecond: number;
}

const USERS: readonly User[] = [
  { name: "ann", header: "ann", path: "/page", perSecond: 1 },
  { name: "bob", header: "bob", path: "/page", perSecond: 3 },
  { name: "carl", header: "carl", path: "/page", perSecond: 8 },
  { name: "dora", header: "dora", path: "/checkout/1", perSecond: 2 },
  { name: "nobody", header: undefined, path: "/checkout/1", perSecond: 1 },
];
const STATUSES = [200, 429, 503, 401] as const;

/** What the edit makes of per-user.yaml: text there, text instead. */
const EDITS = [
  [
    "bucket_capacity: { constant_signal: { value: 5 } }",
    "bucket_capacity: { constant_signal: { value: 10 } }",
  ],
  [
    "fill_amount: { constant_signal: { value: 1 } }",
    "fill_amount: { constant_signal: { value: 5 } }",
  ],
] as const;

class DemoError extends Error {}

/** Counts of one user by status; 0 is a request that got no answer. */
type Counts = Map<number, number>;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

class Demo {
  readonly #shift: number;
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  readonly #children: { readonly name: string; readonly process: ChildProcess }[] = [];
  readonly #counts = new Map<User, Counts>(USERS.map((user) => [user, new Map()]));
  readonly #agent = new Agent({ keepAlive: true });
  readonly #stop = new AbortController();
  #failure: DemoError | undefined;
  #rows = 0;

  constructor(shift: number) {
    this.#shift = shift;
    // Whatever happens, nothing stays behind.
    process.once("exit", () => {
      for (const { process } of this.#children) process.kill("SIGKILL");
      rmSync(this.#folder, { recursive: true, force: true });
    });
    for (const signal of ["SIGINT", "SIGTERM"] as const)
      process.on(signal, () => this.#stop.abort());
  }

  async run(seconds: number): Promise<void> {
    try {
      await this.#start();
      await this.#drive(seconds);
    } catch (thrown) {
      // What the stop interrupts is not a failure.
      if (!this.#stop.signal.aborted) throw thrown;
    } finally {
      await this.#end();
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #port(name: keyof typeof PORTS): number {
    return PORTS[name] + this.#shift;
  }

  async #start(): Promise<void> {
    const binary = envoy();
    for (const name of ["Sluice", "service", "Envoy's admin", "Envoy"] as const) {
      await mustBeFree(this.#port(name), name);
    }
    const policies = join(this.#folder, "policies");
    cpSync(join(ROOT, "deploy/policies"), policies, { recursive: true });
    const bootstrap = join(this.#folder, "envoy.yaml");
    writeFileSync(bootstrap, this.#bootstrap());
    say("Starting a service, Sluice and Envoy.");
    const service = String(this.#port("service"));
    await this.#spawn(
      "service",
      process.execPath,
      ["deploy/demo/upstream.ts", service],
      /upstream on/,
    );
    const sluice = ["src/cli/sluice.ts", "standalone", "--policies", policies];
    await this.#spawn("Sluice", process.execPath, sluice, /listening on/);
    const flags = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"];
    await this.#spawn("Envoy", binary, ["--config-path", bootstrap, ...flags]);
    await this.#ready();
    say(
      `Envoy   http://127.0.0.1:${this.#port("Envoy")}  (in front of the service; ask it yourself)`,
    );
    say(`Sluice  http://127.0.0.1:${this.#port("Sluice")}  (/v1/status, /metrics)`);
    say(`Policies, yours to edit while this runs: ${policies}\n`);
  }

  /** The very file that a person would copy; only its ports move when asked to. */
  #bootstrap(): string {
    const text = readFileSync(join(ROOT, "deploy/envoy/sidecar.yaml"), "utf8");
    return text.replaceAll(
      /port_value: (\d+)/g,
      (_, port: string) => `port_value: ${Number(port) + this.#shift}`,
    );
  }

  /** Resolves when the process has said `started`, or at once. One that ends early ends the demo. */
  #spawn(name: string, command: string, args: readonly string[], started?: RegExp): Promise<void> {
    const address = `127.0.0.1:${this.#port("Sluice")}`;
    const own = {
      SVC_AGENT_SERVER_LISTENER_ADDR: address,
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    };
    const child = spawn(command, args, {
      cwd: ROOT,
      env: { ...process.env, ...own },
      // Not in the terminal's group: Ctrl-C is for the demo, which stops them in order.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#children.push({ name, process: child });
    return new Promise((resolve, reject) => {
      let said = "";
      const hear = (text: string) => {
        said = `${said}${text}`.slice(-4_000);
        if (started?.test(said)) resolve();
      };
      child.stdout.setEncoding("utf8").on("data", hear);
      child.stderr.setEncoding("utf8").on("data", hear);
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        if (this.#stop.signal.aborted) return;
        this.#failure = new DemoError(`${name} ended with ${code ?? signal}:\n${said}`);
        this.#stop.abort();
        reject(this.#failure);
      });
      if (started === undefined) resolve();
    });
  }

  async #ready(): Promise<void> {
    const { signal } = this.#stop;
    const url = `http://127.0.0.1:${this.#port("Envoy's admin")}/ready`;
    for (;;) {
      const ready = await fetch(url, { signal }).then(
        (reply) => reply.ok,
        () => false,
      );
      if (ready) return;
      await sleep(50, undefined, { signal });
    }
  }

  async #drive(seconds: number): Promise<void> {
    const { signal } = this.#stop;
    const traffic = USERS.map((user) => setInterval(() => this.#ask(user), 1_000 / user.perSecond));
    signal.addEventListener("abort", () => traffic.forEach(clearInterval), { once: true });
    const half = Math.ceil(seconds / 2);
    try {
      for (let second = 1; second <= seconds; second++) {
        await sleep(1_000, undefined, { signal });
        this.#draw(second);
        if (second === half) this.#edit();
      }
    } finally {
      traffic.forEach(clearInterval);
    }
  }

  #ask(user: User): void {
    const counts = this.#counts.get(user);
    const count = (status: number) => counts?.set(status, (counts.get(status) ?? 0) + 1);
    const asking = request({
      agent: this.#agent,
      host: "127.0.0.1",
      port: this.#port("Envoy"),
      path: user.path,
      headers: user.header === undefined ? {} : { "x-user": user.header },
    });
    asking.on("response", (reply) => {
      count(reply.statusCode ?? 0);
      reply.resume();
    });
    asking.on("error", () => this.#stop.signal.aborted || count(0));
    asking.end();
  }

  /** On a terminal the table stays in place, elsewhere each one follows the last. */
  #draw(second: number): void {
    const header = ["user", "asks", "sent", ...STATUSES.map(String), "other"];
    const lines = USERS.map((user) => {
      const counts = this.#counts.get(user) ?? new Map<number, number>();
      const sent = [...counts.values()].reduce((sum, count) => sum + count, 0);
      const known = STATUSES.map((status) => counts.get(status) ?? 0);
      const other = sent - known.reduce((sum, count) => sum + count, 0);
      return [
        user.name,
        `${user.path} ${user.perSecond}/s`,
        ...[sent, ...known, other].map(String),
      ];
    });
    const table = [header, ...lines].map((cells) =>
      cells.map((cell, at) => (at < 2 ? cell.padEnd([8, 18][at] ?? 0) : cell.padStart(6))).join(""),
    );
    const text = [`after ${second} s`, ...table].join("\n");
    const back = process.stdout.isTTY && this.#rows > 0 ? `\u001b[${this.#rows}A\u001b[J` : "";
    process.stdout.write(`${back}${text}\n\n`);
    this.#rows = table.length + 2;
  }

  #edit(): void {
    const file = join(this.#folder, "policies/per-user.yaml");
    let text = readFileSync(file, "utf8");
    for (const [from, to] of EDITS) {
      if (!text.includes(from)) throw new DemoError(`${file} was edited: wanted "${from}" in it`);
      text = text.replace(from, to);
    }
    writeFileSync(file, text);
    say("Edited per-user.yaml: bursts of 10 instead of 5, 5 requests a second instead of 1.\n");
    // What has been said stays on the screen.
    this.#rows = 0;
  }

  /** In the reverse order of starting: nobody is asked who is gone. */
  async #end(): Promise<void> {
    this.#stop.abort();
    this.#agent.destroy();
    for (const { process: child } of this.#children.toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(late);
    }
    if (this.#children.length > 0) say("Everything is stopped.");
  }
}

async function mustBeFree(port: number, name: string): Promise<void> {
  const server = createServer();
  const taken = await new Promise((resolve) => {
    server.once("error", resolve);
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(undefined)));
  });
  if (taken !== undefined) {
    throw new DemoError(
      `port ${port}, which ${name} needs, is taken: stop what listens there, or move all ports with --shift 1000`,
    );
  }
}

function wholeNumber(flag: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new DemoError(`--${flag}: wanted a whole number from ${least} to ${most}, got ${text}`);
}

try {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "20" },
      shift: { type: "string", default: "0" },
    },
  });
  const seconds = wholeNumber("seconds", values.seconds, 2, 3_600);
  await new Demo(wholeNumber("shift", values.shift, 0, 50_000)).run(seconds);
} catch (thrown) {
  const told = thrown instanceof DemoError || (thrown instanceof TypeError && "code" in thrown);
  process.stderr.write(`demo: ${told ? thrown.message : String(thrown)}\n`);
  process.exitCode = 1;
}
