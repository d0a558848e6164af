// Keys that can be set and do nothing yet. A process names each one that is set, once, at start; a test
// compares this table with the keys that a booted process really reads.

import type { Loaded } from "./load.ts";
import { leaves, PROCESSES, type ProcessName } from "./tree.ts";

interface Idle {
  /** A key, or an object with everything inside it. */
  readonly path: string;
  readonly why: string;
}

const NOT_YET = "not built yet";
const STANDALONE = "standalone uses the agent's";
const CONTROLLER = "circuits use the controller's";
const UNUSED = "the HTTP client has nothing of the kind";
const GONE = "what it controls does not exist";

const IDLE: Readonly<Record<ProcessName, readonly Idle[]>> = {
  agent: [
    { path: "agent_functions", why: NOT_YET },
    { path: "alerter", why: CONTROLLER },
    { path: "alertmanagers", why: CONTROLLER },
    { path: "auto_scale", why: NOT_YET },
    { path: "client", why: NOT_YET },
    { path: "cloudext", why: NOT_YET },
    { path: "crashreport", why: NOT_YET },
    { path: "dist_cache", why: NOT_YET },
    { path: "etcd", why: NOT_YET },
    { path: "flow_control.preview_service", why: NOT_YET },
    { path: "health", why: NOT_YET },
    { path: "kubernetes_client", why: NOT_YET },
    { path: "object_storage", why: NOT_YET },
    { path: "otel.batch_alerts", why: NOT_YET },
    { path: "otel.batch_postrollup", why: NOT_YET },
    { path: "otel.batch_prerollup", why: NOT_YET },
    { path: "otel.disable_kubelet_scraper", why: GONE },
    { path: "otel.disable_kubernetes_scraper", why: NOT_YET },
    { path: "otel.enable_high_cardinality_platform_metrics", why: NOT_YET },
    { path: "otel.ports.health_check_port", why: NOT_YET },
    { path: "otel.ports.pprof_port", why: NOT_YET },
    { path: "otel.ports.zpages_port", why: NOT_YET },
    { path: "peer_discovery", why: NOT_YET },
    { path: "prometheus", why: CONTROLLER },
    { path: "service_discovery", why: NOT_YET },
    { path: "token_source", why: NOT_YET },
    { path: "watchdog", why: NOT_YET },
  ],
  controller: [
    { path: "cloudext", why: NOT_YET },
    { path: "crashreport", why: NOT_YET },
    { path: "etcd", why: NOT_YET },
    { path: "health", why: NOT_YET },
    { path: "log", why: STANDALONE },
    { path: "metrics", why: STANDALONE },
    { path: "otel.enable_high_cardinality_platform_metrics", why: NOT_YET },
    { path: "otel.ports", why: STANDALONE },
    { path: "policies.cr_watcher", why: NOT_YET },
    { path: "profilers", why: STANDALONE },
    { path: "prometheus.http_client.expect_continue_timeout", why: UNUSED },
    { path: "prometheus.http_client.read_buffer_size", why: UNUSED },
    { path: "prometheus.http_client.write_buffer_size", why: UNUSED },
    { path: "readiness", why: STANDALONE },
    { path: "server", why: STANDALONE },
    { path: "token_source", why: NOT_YET },
    { path: "watchdog", why: NOT_YET },
  ],
};

/** Why a key does nothing, or undefined when it is in effect. */
export function idleReason(process: ProcessName, path: string): string | undefined {
  return IDLE[process].find((idle) => path === idle.path || path.startsWith(`${idle.path}.`))?.why;
}

/** Every leaf of a tree that does nothing yet. */
export function idleKeys(process: ProcessName): readonly string[] {
  return leaves(PROCESSES[process].table)
    .map(({ path }) => path)
    .filter((path) => idleReason(process, path) !== undefined);
}

/** Entries of the table that match no key: there must be none. */
export function strayIdleEntries(process: ProcessName): readonly string[] {
  const keys = leaves(PROCESSES[process].table).map(({ path }) => path);
  return IDLE[process]
    .map(({ path }) => path)
    .filter((path) => !keys.some((key) => key === path || key.startsWith(`${path}.`)));
}

export interface IdleSetting {
  readonly path: string;
  readonly where: string;
  readonly why: string;
}

/** Keys that someone set although they do nothing yet, to be named at start. */
export function idleSettings(loaded: Loaded): readonly IdleSetting[] {
  const found: IdleSetting[] = [];
  for (const [path, { source, where }] of loaded.origins) {
    const why = idleReason(loaded.process, path);
    if (source !== "default" && why !== undefined) found.push({ path, where, why });
  }
  return found;
}
