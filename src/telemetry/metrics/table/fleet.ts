// Metrics of agents and controllers that share a store: who is known, rules and leadership.

import type { MetricTable } from "./row.ts";

export const FLEET_METRICS = {
  sluice_peers: {
    type: "gauge",
    labels: [],
    about: "Agents of this agent's group that are in the store, this one included.",
  },
  sluice_peer_records_refused_total: {
    type: "counter",
    labels: [],
    about:
      "Records of agents in the store that were left out: unreadable ones, those without a lease, those with the id of an older record, and those above 10 000 agents.",
  },
  sluice_agent_requests_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Requests of controllers to this agent by result: answered, failed (the answer is an error) or refused (too many at a time).",
  },
  sluice_agent_calls_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Requests of this controller to agents by result: answered, or failed (an error, or no answer in time).",
  },
  sluice_agents: {
    type: "gauge",
    labels: ["reached_by"],
    about:
      "Agents that this controller knows, by how it asks them: through the store, or over a connection that they made.",
  },
  sluice_remote_write_samples_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Samples of this process for the metrics server of `prometheus.address` (agent), by result: sent, refused (by the server) or dropped (there was no room while the server was away).",
  },
  sluice_remote_write_waiting_bytes: {
    type: "gauge",
    labels: [],
    about: "Bytes of samples that wait for the metrics server, at most 16 MiB.",
  },
  sluice_dependency_degraded: {
    type: "gauge",
    labels: ["dependency"],
    about:
      "1 while something that the process depends on is away or incomplete, 0 otherwise. The process stays ready once it has been.",
  },
  sluice_discovery_addresses: {
    type: "gauge",
    labels: [],
    about:
      "IP addresses of pods and services that service discovery knows. Absent where it is off.",
  },
  sluice_discovery_addresses_left_out: {
    type: "gauge",
    labels: [],
    about: "Addresses that service discovery left out because there are too many.",
  },
  sluice_discovery_published: {
    type: "gauge",
    labels: [],
    about:
      "Addresses that the leading controller publishes for agents that have no right on the Kubernetes API.",
  },
  sluice_discovery_lookups_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Addresses that an agent looked up among those that the controller publishes, by result: `found`, `unknown`, `failed`, or `left_out`, which were not asked for because there were too many.",
  },
  sluice_rules_kept: {
    type: "gauge",
    labels: [],
    about:
      "Keys of rules and numbers that stay in force although the store lost them, until a controller has written again.",
  },
  sluice_rules_refused: {
    type: "gauge",
    labels: ["in_force"],
    about:
      "Rules and numbers in the store that the agent cannot read or run, by what is in force in their place: `predecessor`, the last one that it could read, or `none`. An agent that starts with one of `none` is not ready.",
  },
  sluice_rules_from_snapshot: {
    type: "gauge",
    labels: [],
    about:
      "1 while the agent judges by the rules of `etcd.snapshot_path` because the store has not answered since its start, 0 otherwise. Absent without that key.",
  },
  sluice_rule_snapshots_total: {
    type: "counter",
    labels: ["result"],
    about: "Writes of the file `etcd.snapshot_path`: success or failure.",
  },
  sluice_leader: {
    type: "gauge",
    labels: [],
    about: "1 while this controller leads and runs policies, 0 while it stands by.",
  },
  sluice_leader_since_seconds: {
    type: "gauge",
    labels: [],
    about: "Unix time since which this controller leads; 0 while it stands by.",
  },
} as const satisfies MetricTable;
