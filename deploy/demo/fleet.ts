// `make demo-fleet`: etcd, Redis, two controllers, and three agents, each with an Envoy in front of the same service. One
// limit holds for all three together. Kill any process, or freeze it: it starts again after a few seconds, and the table
// shows what clients see meanwhile. The demo stops every process that it starts.

import { mkdirSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { etcd, redis } from "../tools/install.ts";
import { DemoProcesses, main, print, wholeNumber } from "./processes.ts";
import { demoSettings, envoyProgram } from "./sidecar.ts";

const PORTS = {
  etcd: 2379,
  "etcd's peers": 2380,
  Redis: 6379,
  "controller 1": 8091,
  "controller 2": 8092,
  "agent 1": 8081,
  "agent 2": 8082,
  "agent 3": 8083,
  service: 9000,
  "Envoy 1": 10_001,
  "Envoy 2": 10_002,
  "Envoy 3": 10_003,
  "admin of Envoy 1": 9911,
  "admin of Envoy 2": 9912,
  "admin of Envoy 3": 9913,
} as const;
type Role = keyof typeof PORTS;

const NUMBERS = [1, 2, 3] as const;
const CONTROLLERS = ["controller 1", "controller 2"] as const;

/** Requests a second that the policy lets through, all agents together. */
const LIMIT = 20;
/** Requests a second that each Envoy receives. */
const OFFERED = 30;
/** Time after which a process that ended is started again: long enough to see its absence. */
const RESTART_MS = 5_000;

const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${LIMIT} } }
            fill_amount: { constant_signal: { value: ${LIMIT} } }
          parameters: { interval: 1s }
`;

/** Replies of one second through one Envoy. */
interface Second {
  accepted: number;
  refused: number;
  /** Any other status, or no reply. */
  failed: number;
}

const none = (): Second => ({ accepted: 0, refused: 0, failed: 0 });

class FleetDemo extends DemoProcesses<Role> {
  readonly #client = new Agent({ keepAlive: true });
  #seconds = NUMBERS.map(none);
  #rows = 0;

  /** All ports are moved by `shift`. */
  constructor(shift: number) {
    super(PORTS, shift);
  }

  async play(seconds: number): Promise<void> {
    print("Starting etcd, Redis, two controllers, three agents, an Envoy for each, and a service.");
    for (const role of Object.keys(PORTS) as Role[]) await this.mustBeFree(role);
    await this.#startStores();
    await this.#startControllers();
    await this.spawn("service", {
      command: process.execPath,
      args: ["deploy/demo/upstream.ts", String(this.port("service"))],
      started: / on 127/,
      restartMs: RESTART_MS,
    });
    for (const number of NUMBERS) await this.#startAgent(number);
    print(
      `${LIMIT} requests a second may pass, all agents together; ${OFFERED} arrive at each Envoy.`,
    );
    print(`Without Redis each agent counts for itself, so ${LIMIT * NUMBERS.length} may pass.`);
    print("Kill a process (kill -9 PID) or freeze it (kill -STOP PID, later kill -CONT PID).");
    print(`What was killed starts again after ${RESTART_MS / 1_000} s.\n`);
    try {
      await this.#drive(seconds);
    } finally {
      this.#client.destroy();
    }
  }

  async #startStores(): Promise<void> {
    const peers = this.url("etcd's peers");
    await this.spawn("etcd", {
      command: etcd()["3.5"],
      args: [
        `--data-dir=${join(this.folder, "etcd")}`,
        `--listen-client-urls=${this.url("etcd")}`,
        `--advertise-client-urls=${this.url("etcd")}`,
        `--listen-peer-urls=${peers}`,
        `--initial-advertise-peer-urls=${peers}`,
        `--initial-cluster=default=${peers}`,
      ],
      started: /ready to serve client requests/,
      restartMs: RESTART_MS,
    });
    await this.spawn("Redis", {
      command: redis(),
      args: ["--port", String(this.port("Redis")), "--bind", "127.0.0.1", "--save", ""],
      started: /Ready to accept connections/,
      restartMs: RESTART_MS,
    });
  }

  async #startControllers(): Promise<void> {
    const policies = join(this.folder, "policies");
    mkdirSync(policies);
    writeFileSync(join(policies, "one-limit.yaml"), POLICY);
    for (const role of CONTROLLERS) {
      await this.spawn(role, {
        command: process.execPath,
        args: ["src/cli/sluice.js", "controller", "--policies", policies],
        started: /listening on/,
        env: {
          ...demoSettings("CONTROLLER", this.port(role)),
          SVC_CONTROLLER_ETCD_ENDPOINTS: `[${this.url("etcd")}]`,
          SVC_CONTROLLER_ETCD_LEASE_TTL: "3s",
        },
        restartMs: RESTART_MS,
      });
    }
  }

  async #startAgent(number: (typeof NUMBERS)[number]): Promise<void> {
    const role: Role = `agent ${number}`;
    await this.spawn(role, {
      command: process.execPath,
      args: ["src/cli/sluice.js", "agent"],
      started: /listening on/,
      env: {
        ...demoSettings("AGENT", this.port(role)),
        SVC_AGENT_ETCD_ENDPOINTS: `[${this.url("etcd")}]`,
        SVC_AGENT_ETCD_LEASE_TTL: "3s",
        SVC_AGENT_COUNTERS_ENGINE: "redis",
        SVC_AGENT_COUNTERS_REDIS_URL: `redis://127.0.0.1:${this.port("Redis")}`,
        SVC_AGENT_PEER_DISCOVERY_ADVERTISEMENT_ADDR: `127.0.0.1:${this.port(role)}`,
      },
      restartMs: RESTART_MS,
    });
    const admin: Role = `admin of Envoy ${number}`;
    const program = envoyProgram(join(this.folder, `envoy-${number}.yaml`), {
      envoy: this.port(`Envoy ${number}`),
      admin: this.port(admin),
      agent: this.port(role),
      service: this.port("service"),
    });
    await this.spawn(`Envoy ${number}`, { ...program, restartMs: RESTART_MS });
    await this.answers(`${this.url(admin)}/ready`);
  }

  async #drive(seconds: number): Promise<void> {
    const signal = this.stop;
    const traffic = NUMBERS.map((_, at) => setInterval(() => this.#send(at), 1_000 / OFFERED));
    signal.addEventListener("abort", () => traffic.forEach(clearInterval), { once: true });
    try {
      for (let second = 1; second <= seconds; second++) {
        // Asked during the second: a controller that is frozen must not make it longer.
        const leaders = Promise.all(CONTROLLERS.map((role) => this.#leads(role)));
        await sleep(1_000, undefined, { signal });
        const last = this.#seconds;
        this.#seconds = NUMBERS.map(none);
        this.#draw(second, last, await leaders);
      }
    } finally {
      traffic.forEach(clearInterval);
    }
  }

  /** A reply counts in the second in which it arrives. */
  #send(at: number): void {
    const count = (result: keyof Second) => {
      const second = this.#seconds[at];
      if (second !== undefined) second[result] += 1;
    };
    const call = request({
      agent: this.#client,
      host: "127.0.0.1",
      port: this.port(`Envoy ${NUMBERS[at] ?? 1}`),
      timeout: 2_000,
    });
    call.on("response", ({ statusCode }) => {
      count(statusCode === 200 ? "accepted" : statusCode === 429 ? "refused" : "failed");
    });
    call.on("response", (reply) => reply.resume());
    call.on("timeout", () => call.destroy());
    call.on("error", () => this.stop.aborted || count("failed"));
    call.end();
  }

  /** True if the controller says that it leads. */
  async #leads(role: (typeof CONTROLLERS)[number]): Promise<boolean> {
    const signal = AbortSignal.any([this.stop, AbortSignal.timeout(500)]);
    const metrics = await fetch(`${this.url(role)}/metrics`, { signal }).then(
      (reply) => reply.text(),
      () => "",
    );
    return /^sluice_leader(\{.*\})? 1$/m.test(metrics);
  }

  /** Prints the table. On a terminal it replaces the one before. */
  #draw(second: number, counts: readonly Second[], leaders: readonly boolean[]): void {
    const pid = (role: Role) => {
      const running = this.pid(role);
      return running === undefined ? "down" : String(running);
    };
    const row = (cells: readonly (string | number)[]) =>
      cells
        .map((cell, at) => (at === 0 ? String(cell).padEnd(14) : String(cell).padStart(11)))
        .join("");
    const sum = none();
    const agents = NUMBERS.map((number, at) => {
      const { accepted, refused, failed } = counts[at] ?? none();
      sum.accepted += accepted;
      sum.refused += refused;
      sum.failed += failed;
      const pids = [pid(`Envoy ${number}`), pid(`agent ${number}`)];
      return row([`Envoy ${number}`, ...pids, accepted, refused, failed]);
    });
    const table = [
      `after ${second} s`,
      row(["", "Envoy", "agent", "200", "429", "failed"]),
      ...agents,
      row(["together", "", "", sum.accepted, sum.refused, sum.failed]),
      CONTROLLERS.map((role, at) => `${role} ${pid(role)}${leaders[at] ? " leads" : ""}`).join(
        "   ",
      ),
      `etcd ${pid("etcd")}   Redis ${pid("Redis")}   service ${pid("service")}`,
    ];
    const back = process.stdout.isTTY && this.#rows > 0 ? `\u001b[${this.#rows}A\u001b[J` : "";
    process.stdout.write(`${back}${table.join("\n")}\n\n`);
    this.#rows = table.length + 1;
  }
}

await main("demo-fleet", async () => {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "300" },
      shift: { type: "string", default: "0" },
    },
  });
  const seconds = wholeNumber("seconds", values.seconds, 2, 3_600);
  const demo = new FleetDemo(wholeNumber("shift", values.shift, 0, 50_000));
  await demo.run(() => demo.play(seconds));
});
