// Starts real Redis servers: one, with Sentinels, or a cluster. Tests freeze or kill them to see how Sluice copes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { redis as installed } from "../../../deploy/tools/install.ts";
import type { Ending } from "../ending.ts";
import { folderOf } from "../folder.ts";
import { freePort } from "../free-port.ts";
import { until } from "../until.ts";
import { child } from "./child.ts";
import type { Certificate } from "./tls.ts";

export interface RedisServer {
  readonly port: number;
  /** `redis://host:port`. */
  readonly url: string;
  /** Sends one command over a connection of its own. */
  command(name: string, ...args: readonly (string | number)[]): Promise<unknown>;
  /** Stops it from running until `thaw`: the system still accepts connections, and nothing is answered. */
  freeze(): Promise<void>;
  thaw(): void;
  /** Kills it and waits until it has ended. */
  kill(): Promise<void>;
  /** Opens a port that speaks TLS, where the settings name a certificate, and returns it. */
  openTls(): Promise<number>;
  /** Starts it again on the same port, empty. */
  restart(): Promise<void>;
}

export interface RedisServerOptions {
  /** As lines of a configuration file. */
  readonly settings?: readonly string[];
  /** For `command`. */
  readonly password?: string;
  readonly sentinel?: boolean;
  /** Takes the given port instead of a free one. */
  readonly port?: number;
}

/** Starts a server that keeps nothing on disk and runs until the test ends. */
export async function startRedis(
  test: Ending,
  options: RedisServerOptions = {},
): Promise<RedisServer> {
  const { settings = [], password, sentinel = false } = options;
  const port = options.port ?? (await freePort());
  const folder = folderOf(test);
  const file = join(folder, "redis.conf");
  const own = [`port ${port}`, "bind 127.0.0.1", `dir ${folder}`, "loglevel notice"];
  const memory = sentinel ? [] : ['save ""', "appendonly no"];
  const start = async () => {
    writeFileSync(file, [...own, ...memory, ...settings, ""].join("\n"));
    const started = child(test, installed(), sentinel ? [file, "--sentinel"] : [file]);
    const ready = sentinel ? "Sentinel ID is" : "Ready to accept connections";
    await started.until("Redis is ready", () => started.out().includes(ready));
    return started;
  };
  let running = await start();
  const command: RedisServer["command"] = async (name, ...args) => {
    const client = new Redis({
      port,
      host: "127.0.0.1",
      retryStrategy: () => null,
      ...(password === undefined ? {} : { password }),
    });
    client.on("error", () => undefined);
    try {
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    command,
    freeze: () => running.freeze(),
    thaw: () => running.kill("SIGCONT"),
    async openTls() {
      const opened = await freePort();
      await command("CONFIG", "SET", "tls-port", opened);
      return opened;
    },
    async kill() {
      running.kill("SIGKILL");
      await running.ended;
    },
    async restart() {
      running = await start();
    },
  };
}

/**
 * Starts a server that speaks TLS as well, and returns that address as `host:port`. Clients need a certificate of the
 * authority in `clientCaFile` where it is given.
 */
export async function startTlsRedis(
  test: Ending,
  { certFile, keyFile }: Certificate,
  clientCaFile?: string,
): Promise<string> {
  const redis = await startRedis(test, {
    settings: [
      `tls-cert-file ${certFile}`,
      `tls-key-file ${keyFile}`,
      `tls-ca-cert-file ${clientCaFile ?? certFile}`,
      `tls-auth-clients ${clientCaFile === undefined ? "no" : "yes"}`,
    ],
  });
  return `127.0.0.1:${await redis.openTls()}`;
}

/** Starts a cluster of three masters that each have a third of the slots. */
export async function startRedisCluster(test: Ending): Promise<readonly RedisServer[]> {
  const settings = ["cluster-enabled yes", "cluster-node-timeout 2000"];
  const nodes: RedisServer[] = [];
  for (let at = 0; at < 3; at++) nodes.push(await startRedis(test, { settings }));
  const share = Math.ceil(16_384 / nodes.length);
  for (const [at, node] of nodes.entries()) {
    const last = Math.min(16_383, (at + 1) * share - 1);
    await node.command("CLUSTER", "ADDSLOTSRANGE", at * share, last);
    await node.command("CLUSTER", "SET-CONFIG-EPOCH", at + 1);
  }
  const [first] = nodes;
  for (const node of nodes.slice(1))
    await first?.command("CLUSTER", "MEET", "127.0.0.1", node.port);
  for (const node of nodes) {
    await until("the cluster is complete", async () => {
      const info = String(await node.command("CLUSTER", "INFO"));
      return info.includes("cluster_state:ok") && info.includes("cluster_known_nodes:3");
    });
  }
  return nodes;
}

/**
 * Starts a master, a replica that has all its writes, and three Sentinels that find it dead after a second. `env` has the
 * settings of an agent below `counters.redis`.
 */
export async function startRedisWithSentinels(test: Ending) {
  const master = await startRedis(test);
  const replica = await startRedis(test, { settings: [`replicaof 127.0.0.1 ${master.port}`] });
  await until("the replica follows", async () =>
    String(await replica.command("INFO", "replication")).includes("master_link_status:up"),
  );
  const sentinels: RedisServer[] = [];
  for (let n = 0; n < 3; n++) {
    const settings = [
      `sentinel monitor main 127.0.0.1 ${master.port} 2`,
      "sentinel down-after-milliseconds main 1000",
      "sentinel failover-timeout main 3000",
    ];
    sentinels.push(await startRedis(test, { settings, sentinel: true }));
  }
  for (const sentinel of sentinels) {
    await until("the Sentinels know each other and the replica", async () => {
      const state = String(await sentinel.command("SENTINEL", "MASTER", "main"));
      return state.includes("num-other-sentinels,2") && state.includes("num-slaves,1");
    });
  }
  const env = {
    SENTINEL_MASTER: "main",
    SENTINEL_ADDRESSES: JSON.stringify(sentinels.map(({ port }) => `127.0.0.1:${port}`)),
  };
  return { master, replica, env };
}
