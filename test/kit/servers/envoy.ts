// Starts a real Envoy on a bootstrap that Sluice ships, and reads its ports, access log, clusters and stats.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { envoy as installed } from "../../../deploy/tools/install.ts";
import { folderOf } from "../folder.ts";
import { until } from "../until.ts";
import { type Addresses, Bootstrap } from "./bootstrap.ts";
import { child } from "./child.ts";

const SERVICE = join(import.meta.dirname, "../../../deploy/demo/upstream.ts");

/** One line of the access log. */
export type LogEntry = Readonly<Record<string, string | number | null>>;

export interface EnvoyOptions extends Addresses {
  readonly edit?: (bootstrap: Bootstrap) => void;
}

export interface Envoy {
  readonly port: number;
  /** `http://host:port` of the listener. */
  readonly url: string;
  /** Port of its administration. */
  readonly admin: number;
  /** Access log so far, oldest first. */
  log(): readonly LogEntry[];
  /** Resolves with the first entry for which `fits` returns true. */
  logged(what: string, fits: (entry: LogEntry) => boolean): Promise<LogEntry>;
  /** Addresses of agents, each with whether its health checks pass. */
  agents(): Promise<ReadonlyMap<string, boolean>>;
  /** Value of a counter or gauge. */
  stat(name: string): Promise<number>;
}

/** Starts an Envoy that runs until the test ends. Resolves when it listens and has checked the agents' health once. */
export async function startEnvoy(test: TestContext, options: EnvoyOptions): Promise<Envoy> {
  const bootstrap = new Bootstrap(options);
  options.edit?.(bootstrap);
  const folder = folderOf(test);
  const adminFile = join(folder, "admin");
  const own = child(test, installed(), [
    ...bootstrap.args,
    "--admin-address-path",
    adminFile,
    "--log-level",
    "error",
    // Access logs are written at once instead of every ten seconds.
    "--file-flush-interval-msec",
    "10",
  ]);
  const admin = (): string => (existsSync(adminFile) ? readFileSync(adminFile, "utf8") : "");
  await own.until("Envoy's admin listens", () => admin() !== "");
  const fetchAdmin = async (path: string) => (await fetch(`http://${admin()}${path}`)).text();
  await until("Envoy is ready", async () => (await fetchAdmin("/ready")).startsWith("LIVE"));
  const listeners: Listeners = JSON.parse(await fetchAdmin("/listeners?format=json"));
  const ingress = listeners.listener_statuses.find(({ name }) => name === "ingress");
  const port = ingress?.local_address.socket_address.port_value ?? 0;
  const log = () => readLog(own.out());
  return {
    port,
    admin: Number(admin().split(":").at(-1)),
    url: `http://127.0.0.1:${port}`,
    log,
    async logged(what, fits) {
      let found: LogEntry | undefined;
      await until(`access log: ${what}`, () => {
        found = log().find(fits);
        return found !== undefined;
      });
      return found ?? {};
    },
    async agents() {
      const clusters: Clusters = JSON.parse(await fetchAdmin("/clusters?format=json"));
      const hosts = clusters.cluster_statuses.find(({ name }) => name === "sluice")?.host_statuses;
      return new Map(
        (hosts ?? []).map(({ address, health_status }) => [
          address.pipe === undefined
            ? `${address.socket_address?.address}:${address.socket_address?.port_value}`
            : `unix:${address.pipe.path}`,
          health_status.failed_active_health_check !== true,
        ]),
      );
    },
    async stat(name) {
      const stats: Stats = JSON.parse(await fetchAdmin(`/stats?format=json&filter=^${name}$`));
      const value = stats.stats[0]?.value;
      assert.ok(value !== undefined, `Envoy has ${name}`);
      return value;
    },
  };
}

interface Listeners {
  readonly listener_statuses: readonly {
    readonly name: string;
    readonly local_address: { readonly socket_address: { readonly port_value: number } };
  }[];
}

interface Clusters {
  readonly cluster_statuses: readonly {
    readonly name: string;
    readonly host_statuses?: readonly {
      readonly address: {
        readonly socket_address?: { readonly address: string; readonly port_value: number };
        readonly pipe?: { readonly path: string };
      };
      readonly health_status: { readonly failed_active_health_check?: boolean };
    }[];
  }[];
}

interface Stats {
  readonly stats: readonly { readonly value: number }[];
}

/** Entries of whole lines: the last line may not be complete yet. */
function readLog(text: string): readonly LogEntry[] {
  const lines = text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
  return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
}

/** Starts the demo's service, which echoes requests, in a process of its own. Returns its port. */
export async function startService(test: TestContext): Promise<number> {
  const own = child(test, process.execPath, [SERVICE, "0"]);
  const port = () => /127\.0\.0\.1:(\d+)/.exec(own.out())?.[1];
  await own.until("the service listens", () => port() !== undefined);
  return Number(port());
}
