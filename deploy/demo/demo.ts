// `make demo`: a service, Sluice and a real Envoy on this machine, traffic of a few users, and a policy that is edited
// meanwhile. It stops every process that it starts.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { DemoError, main, print, wholeNumber } from "./processes.ts";
import { SidecarDemo } from "./sidecar.ts";

const ROOT = join(import.meta.dirname, "../..");

interface User {
  readonly name: string;
  /** Value of the header `x-user`; undefined sends no such header. */
  readonly header: string | undefined;
  readonly path: string;
  readonly perSecond: number;
}

const USERS: readonly User[] = [
  { name: "ann", header: "ann", path: "/page", perSecond: 1 },
  { name: "bob", header: "bob", path: "/page", perSecond: 3 },
  { name: "carl", header: "carl", path: "/page", perSecond: 8 },
  { name: "dora", header: "dora", path: "/checkout/1", perSecond: 2 },
  { name: "guest", header: undefined, path: "/checkout/1", perSecond: 1 },
];
const SERVICE = "deploy/demo/upstream.ts";
/** Duration of an order: at two orders a second, the third one arrives while two are in progress. */
const ORDER_MS = "1200";
const STATUSES = [200, 429, 503, 401] as const;

/** The edit of per-user.yaml: pairs of old and new text. */
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

/** Number of replies to one user by status; 0 stands for no reply. */
type Counts = Map<number, number>;

class Demo {
  readonly #processes: SidecarDemo;
  readonly #policies: string;
  readonly #counts = new Map<User, Counts>(USERS.map((user) => [user, new Map()]));
  readonly #agent = new Agent({ keepAlive: true });
  #rows = 0;

  constructor(processes: SidecarDemo) {
    this.#processes = processes;
    this.#policies = join(processes.folder, "policies");
  }

  async run(seconds: number): Promise<void> {
    const processes = this.#processes;
    cpSync(join(ROOT, "deploy/policies"), this.#policies, { recursive: true });
    print("Starting a service, Sluice and Envoy.");
    await processes.start({ policies: this.#policies, service: [SERVICE, ORDER_MS] });
    print(
      `Envoy   ${processes.url("Envoy")}  (in front of the service; send it requests yourself)`,
    );
    print(`Sluice  ${processes.url("Sluice")}  (/v1/status, /metrics)`);
    print(`Policies, which you may edit while this runs: ${this.#policies}\n`);
    try {
      await this.#drive(seconds);
    } finally {
      this.#agent.destroy();
    }
  }

  async #drive(seconds: number): Promise<void> {
    const signal = this.#processes.stop;
    const traffic = USERS.map((user) =>
      setInterval(() => this.#send(user), 1_000 / user.perSecond),
    );
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

  #send(user: User): void {
    const counts = this.#counts.get(user);
    const count = (status: number) => counts?.set(status, (counts.get(status) ?? 0) + 1);
    const call = request({
      agent: this.#agent,
      host: "127.0.0.1",
      port: this.#processes.port("Envoy"),
      path: user.path,
      headers: user.header === undefined ? {} : { "x-user": user.header },
    });
    call.on("response", (reply) => {
      count(reply.statusCode ?? 0);
      reply.resume();
    });
    call.on("error", () => this.#processes.stop.aborted || count(0));
    call.end();
  }

  /** Prints the table. On a terminal it replaces the one before. */
  #draw(second: number): void {
    const header = ["user", "requests", "sent", ...STATUSES.map(String), "other"];
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
    const file = join(this.#policies, "per-user.yaml");
    let text = readFileSync(file, "utf8");
    for (const [from, to] of EDITS) {
      if (!text.includes(from))
        throw new DemoError(`${file} was edited: it must contain "${from}"`);
      text = text.replace(from, to);
    }
    writeFileSync(file, text);
    print("Edited per-user.yaml: bursts of 10 instead of 5, 5 requests a second instead of 1.\n");
    // The next table must not overwrite this line.
    this.#rows = 0;
  }
}

await main("demo", async () => {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "20" },
      shift: { type: "string", default: "0" },
    },
  });
  const seconds = wholeNumber("seconds", values.seconds, 2, 3_600);
  const processes = new SidecarDemo(wholeNumber("shift", values.shift, 0, 50_000));
  await processes.run(() => new Demo(processes).run(seconds));
});
