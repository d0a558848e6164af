// An agent as a process of its own: it shares a store with a controller in another process.

import type { Loaded } from "#config/load.ts";
import { openPorts, type Ports } from "#daemon/ports.ts";
import { type ProcessOptions, startProcess } from "#daemon/process.ts";
import { startAgent } from "./agent.ts";

interface AgentProcessOptions extends Omit<ProcessOptions, "configs"> {
  readonly config: Loaded<"agent">;
}

/** Returns when the agent accepts calls. It judges flows as soon as it has the rules of the store. */
export async function startAgentProcess(options: AgentProcessOptions): Promise<Ports> {
  const process = startProcess({ ...options, configs: [options.config] });
  const { config } = options.config;
  const { snapshot_path: snapshotPath } = config.etcd;
  const agent = await startAgent(process, config, { snapshotPath, engine: "peers" });
  return openPorts(process, [agent]);
}
