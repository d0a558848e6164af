// Agent and controller in one process over a store in memory: what a laptop and a single sidecar run. Both parts are
// the same as in processes of their own; there is no special path here.

import { type Agent, startAgent } from "#agent/agent.ts";
import { ConfigFault } from "#config/fault.ts";
import { type ConfigSources, type Loaded, loadConfig } from "#config/load.ts";
import { startControllerPart } from "#controller/process.ts";
import { openPorts, type Ports } from "#daemon/ports.ts";
import { type ProcessOptions, startProcess } from "#daemon/process.ts";
import { memoryStore } from "#store/memory.ts";

export interface StandaloneConfig {
  readonly agent: Loaded<"agent">;
  readonly controller: Loaded<"controller">;
}

/**
 * Loads both trees, from one file that holds the keys of both, or from the file of each in a directory. Throws one
 * ConfigFault with the faults of both.
 */
export function loadStandalone(sources: ConfigSources): StandaloneConfig {
  const faults: ConfigFault[] = [];
  const attempt = <T>(load: () => T): T | undefined => {
    try {
      return load();
    } catch (thrown) {
      if (!(thrown instanceof ConfigFault)) throw thrown;
      faults.push(thrown);
      return undefined;
    }
  };
  const agent = attempt(() => loadConfig("agent", { ...sources, beside: "controller" }));
  const controller = attempt(() => loadConfig("controller", { ...sources, beside: "agent" }));
  if (agent === undefined || controller === undefined) throw ConfigFault.join(faults);
  refusePublishedDiscovery(agent);
  return { agent: onLoopback(agent), controller };
}

/** The controller of standalone publishes no discovery, as there is no other agent that could read it. */
function refusePublishedDiscovery({ config, origins }: Loaded<"agent">): void {
  const { enabled, source } = config.service_discovery.kubernetes;
  if (!enabled || source !== "controller") return;
  const path = "service_discovery.kubernetes.source";
  const wanted = "api_server, because the controller of standalone publishes no discovery";
  const where = origins.get(path)?.where ?? "";
  throw new ConfigFault([{ process: "agent", path, where, wanted, got: source }]);
}

/** The address of standalone unless one is configured. */
const LOOPBACK = "127.0.0.1:8080";

/** Used where no address is configured, so that trying Sluice does not open it to other machines. */
function onLoopback(loaded: Loaded<"agent">): Loaded<"agent"> {
  const { config, origins, notes } = loaded;
  if (origins.get("server.listener.addr")?.source !== "default") return loaded;
  const { server } = config;
  const listener = Object.freeze({ ...server.listener, addr: LOOPBACK });
  const message = `server.listener.addr is not set: listening on ${LOOPBACK}, which only this machine can reach`;
  return {
    ...loaded,
    config: Object.freeze({ ...config, server: Object.freeze({ ...server, listener }) }),
    notes: [...notes, { level: "info", path: "server.listener.addr", where: "default", message }],
  };
}

export interface StandaloneOptions extends Omit<ProcessOptions, "configs" | "store"> {
  readonly config: StandaloneConfig;
  /** Directories of policy documents. */
  readonly policies: readonly string[];
}

/** Starts everything. When it returns, policies run, the agent judges by their rules, and the port accepts calls. */
export async function startStandalone(
  options: StandaloneOptions,
): Promise<Ports & { readonly agent: Agent }> {
  const { config, policies } = options;
  const configs = [config.agent, config.controller] as const;
  const process = startProcess({ ...options, configs, store: memoryStore() });
  const controller = await startControllerPart(process, config.controller.config, policies, {
    agentGroup: config.agent.config.agent_info.agent_group,
  });
  const agent = await startAgent(process, config.agent.config);
  return { ...(await openPorts(process, [agent, controller])), agent };
}
