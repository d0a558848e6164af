// Starts the rate limit service of the Envoy project over a Redis, with one limit that is keyed by user and never reached.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Target } from "../../load/connection.ts";
import { accepting, freeTarget, killOnExit, type Running, SERVER_CORE } from "../processes.ts";
import { goServer } from "./build.ts";

export const DOMAIN = "bench";
export const USER = "user";

const LIMITS = `domain: ${DOMAIN}
descriptors:
  - key: ${USER}
    rate_limit: { unit: hour, requests_per_unit: 1000000000 }
`;

/** `folder` is an empty one for its configuration; `redis` is \`host:port\`. */
export async function startRatelimit(folder: string, redis: string): Promise<Running> {
  const config = join(folder, "ratelimit/config");
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, "bench.yaml"), LIMITS);
  const target: Target = await freeTarget();
  const portOf = (address: string) => address.slice(address.lastIndexOf(":") + 1);
  const child = spawn("taskset", ["-c", SERVER_CORE, goServer("ratelimit")], {
    env: {
      ...process.env,
      GOMAXPROCS: "1",
      LOG_LEVEL: "error",
      DISABLE_STATS: "true",
      USE_STATSD: "false",
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: "ratelimit",
      RUNTIME_WATCH_ROOT: "false",
      REDIS_SOCKET_TYPE: "tcp",
      REDIS_URL: redis,
      GRPC_HOST: "127.0.0.1",
      GRPC_PORT: portOf(target),
      HOST: "127.0.0.1",
      PORT: portOf(await freeTarget()),
      DEBUG_HOST: "127.0.0.1",
      DEBUG_PORT: portOf(await freeTarget()),
    },
    stdio: "ignore",
  });
  killOnExit(child);
  return accepting(child, target);
}
