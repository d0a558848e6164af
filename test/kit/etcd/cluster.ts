// Starts real etcd servers: one or three members, with or without TLS, client certificates and users. Tests kill, freeze
// and restart members.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { etcd, etcdctl } from "../../../deploy/tools/install.ts";
import type { Ending } from "../ending.ts";
import { folderOf } from "../folder.ts";
import { freePort } from "../free-port.ts";
import { type Child, child } from "../servers/child.ts";
import type { Certificate } from "../servers/tls.ts";
import { until } from "../until.ts";
import { startLinks } from "./links.ts";

export type EtcdVersion = "3.4" | "3.5";

export const ETCD_VERSIONS = ["3.4", "3.5"] as const satisfies readonly EtcdVersion[];

export interface EtcdOptions {
  readonly version?: EtcdVersion;
  readonly members?: 1 | 3;
  readonly tls?: {
    readonly server: Certificate;
    readonly authorityFile: string;
    /** Present: clients must have a certificate, of which this is one. */
    readonly client?: Certificate;
  };
  /** The function gets a folder for files that flags name. */
  readonly flags?: readonly string[] | ((folder: string) => readonly string[]);
  /** Members reach each other through proxies, so that `isolate` can cut one off. */
  readonly isolable?: boolean;
}

export interface Member {
  /** `host:port` of clients. */
  readonly address: string;
  /** Kills it and waits until it has ended. */
  kill(): Promise<void>;
  /** Starts it again with its data. */
  start(): Promise<void>;
  /** Deletes its data, while it does not run. */
  wipe(): void;
  /** Stops it from running until `thaw`: the system still accepts connections, and nothing is answered. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Cuts it off from the other members, until `rejoin`. Clients still reach it. */
  isolate(): Promise<void>;
  rejoin(): void;
}

export interface Etcd {
  readonly members: readonly Member[];
  /** `http://host:port` or `https://host:port` of each member. */
  readonly endpoints: readonly string[];
  /** Runs etcdctl and resolves with its output. */
  ctl(...args: readonly string[]): Promise<string>;
  /** The present revision. */
  revision(): Promise<number>;
  /** The member that leads. Fails if none does. */
  leader(): Promise<Member>;
  /** Forgets all earlier states. */
  compact(): Promise<void>;
}

/** Starts a cluster that runs until the test ends, and waits until it answers. */
export async function startEtcd(test: Ending, options: EtcdOptions = {}): Promise<Etcd> {
  const { version = "3.5", members: count = 1, tls, flags = [], isolable = false } = options;
  const binary = etcd()[version];
  const folder = folderOf(test);
  const ports = await Promise.all(Array.from({ length: count * 2 }, freePort));
  const scheme = tls === undefined ? "http" : "https";
  const own = Array.from({ length: count }, (_, at) => `http://127.0.0.1:${ports[count + at]}`);
  const links = isolable ? await startLinks(test, ports.slice(count)) : undefined;
  const peers = links?.urls ?? own;
  const names = peers.map((peer, at) => `m${at}=${peer}`).join(",");
  const secure =
    tls === undefined
      ? []
      : [
          `--cert-file=${tls.server.certFile}`,
          `--key-file=${tls.server.keyFile}`,
          ...(tls.client === undefined
            ? []
            : ["--client-cert-auth", `--trusted-ca-file=${tls.authorityFile}`]),
        ];
  const chosen = typeof flags === "function" ? flags(folder) : flags;
  const launch = (at: number) =>
    child(
      test,
      binary,
      [
        `--name=m${at}`,
        `--data-dir=${folder}/m${at}`,
        `--listen-client-urls=${scheme}://127.0.0.1:${ports[at]}`,
        `--advertise-client-urls=${scheme}://127.0.0.1:${ports[at]}`,
        `--listen-peer-urls=${own[at]}`,
        `--initial-advertise-peer-urls=${peers[at]}`,
        `--initial-cluster=${names}`,
        "--logger=zap",
        // Members of a test never leave; a disk that is slow for a second must not cost the election.
        "--heartbeat-interval=100",
        "--election-timeout=1000",
        "--unsafe-no-fsync",
        // The least: processes with a wrong password, which try it again and again, would take a busy machine's time.
        "--bcrypt-cost=4",
        ...secure,
        ...chosen,
      ].filter((flag) => version === "3.5" || flag !== "--unsafe-no-fsync"),
    );
  const running = Array.from({ length: count }, (_, at) => launch(at));
  const endpoints = Array.from({ length: count }, (_, at) => `${scheme}://127.0.0.1:${ports[at]}`);
  const credentials =
    tls === undefined
      ? []
      : [
          `--cacert=${tls.authorityFile}`,
          ...(tls.client === undefined
            ? []
            : [`--cert=${tls.client.certFile}`, `--key=${tls.client.keyFile}`]),
        ];
  const ctl = async (...args: readonly string[]): Promise<string> => {
    const patient = "--command-timeout=120s";
    const all = [`--endpoints=${endpoints.join(",")}`, patient, ...credentials, ...args];
    const { stdout } = await promisify(execFile)(etcdctl(), all, {
      env: { ...process.env, ETCDCTL_API: "3" },
      maxBuffer: 1 << 26,
    });
    return stdout;
  };
  const revision = async () => {
    const status = JSON.parse(await ctl("endpoint", "status", "-w", "json"));
    return Math.max(...status.map((each: { Status: Head }) => each.Status.header.revision));
  };
  const healthy = async () => {
    if (running.some(({ process }) => process.exitCode !== null)) {
      throw new Error(`etcd ended\n${running.map(({ err }) => err()).join("\n")}`);
    }
    return ctl("endpoint", "health", "--command-timeout=2s").then(
      () => true,
      // A server that wants a user answers.
      (thrown: unknown) => /user name is empty/.test(String(thrown)),
    );
  };
  await until("etcd is healthy", healthy);
  const members = endpoints.map(
    (endpoint, at): Member => ({
      address: endpoint.replace(/^https?:\/\//, ""),
      kill: async () => {
        running[at]?.kill("SIGKILL");
        await running[at]?.ended;
      },
      start: async () => {
        running[at] = launch(at);
        await until("etcd is healthy again", healthy);
      },
      wipe: () => rmSync(`${folder}/m${at}`, { recursive: true }),
      freeze: async () => {
        running[at]?.kill("SIGSTOP");
        while (!isStopped(running[at])) await sleep(2);
      },
      thaw: () => running[at]?.kill("SIGCONT"),
      async isolate() {
        const listed = await ctl("member", "list");
        links?.cut(at, new RegExp(`^(\\w+), \\w+, m${at},`, "m").exec(listed)?.[1] ?? "");
      },
      rejoin: () => links?.heal(),
    }),
  );
  return {
    members,
    endpoints,
    ctl,
    revision,
    async leader() {
      const lines = (await ctl("endpoint", "status")).split("\n").map((line) => line.split(", "));
      const [endpoint = ""] = lines.find(([, , , , leads]) => leads === "true") ?? [];
      const member = members[endpoints.indexOf(endpoint)];
      if (member === undefined) throw new Error("no member leads");
      return member;
    },
    compact: async () => void (await ctl("compact", String(await revision()))),
  };
}

interface Head {
  readonly header: { readonly revision: number };
}

/** Turns authentication on: `root` with the password `root`, and a user with all rights below the namespace. */
export async function enableUsers(
  { ctl }: Etcd,
  {
    name,
    password,
    prefix = "aperture",
  }: Readonly<Record<"name" | "password", string>> & {
    readonly prefix?: string;
  },
): Promise<void> {
  await ctl("user", "add", "root:root");
  await ctl("user", "grant-role", "root", "root");
  await ctl("role", "add", "sluice");
  await ctl("role", "grant-permission", "sluice", "--prefix=true", "readwrite", prefix);
  await ctl("user", "add", `${name}:${password}`);
  await ctl("user", "grant-role", name, "sluice");
  await ctl("auth", "enable");
}

/** True if every thread is stopped. Assumes so where there is no /proc. */
function isStopped(own: Child | undefined): boolean {
  const tasks = `/proc/${own?.process.pid}/task`;
  if (!existsSync(tasks)) return true;
  return readdirSync(tasks).every((task) => {
    const stat = readFileSync(join(tasks, task, "stat"), "utf8");
    return /^[Tt]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  });
}
