// An agent as a process of its own: it shares a store with a controller in another process.

import type { Loaded } from "#config/load.ts";
import { openPorts, type Ports } from "#daemon/ports.ts";
import { type ProcessOptions, startProcess } from "#daemon/process.ts";
import { startAgent } from "./agent.ts";

interface AgentProcessOptions extends Omit<ProcessOptions, "configs"> {
  readonly config: Loaded<"agent">;
}

/** Starts everything. When it returns, the agent accepts calls, and judges by the rules of the store as soon as it has them. */
export async function startAgentProcess(options: AgentProcessOptions): Promise<Ports> {
  const process = startProcess({ ...options, configs: [options.config] });
  const { config } = options.config;
  const { snapshot_path: snapshotPath } = config.etcd;
  const agent = await startAgent(process, config, { snapshotPath, engine: "peers" });
  return openPorts(process, [agent]);
}
