// Starts the real command with the policies of recordings.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

export interface Standalone {
  /** `host:port`. */
  readonly address: string;
  /** Resolves when the process has ended. */
  stop(): Promise<unknown>;
}

/** Runs `sluice standalone` over a directory of policies. Resolves when it listens, and rejects when it ends before. */
export async function startStandalone(policies: string): Promise<Standalone> {
  const sluice = spawn(
    process.execPath,
    ["src/cli/sluice.js", "standalone", "--policies", policies],
    {
      cwd: join(import.meta.dirname, "../.."),
      env: {
        PATH: process.env["PATH"],
        SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
        SVC_AGENT_SERVER_GRPC_ENABLE_REFLECTION: "true",
        SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
        SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
        SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
        SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
        SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
      },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const ended = once(sluice, "exit");
  let printed = "";
  for await (const chunk of sluice.stderr) {
    printed += String(chunk);
    const [, address] = /listening on (127\.0\.0\.1:\d+)/.exec(printed) ?? [];
    if (address === undefined) continue;
    sluice.stderr.resume();
    const stop = () => {
      sluice.kill("SIGTERM");
      return ended;
    };
    return { address, stop };
  }
  throw new Error(`sluice ended before it listened: ${printed}`);
}
