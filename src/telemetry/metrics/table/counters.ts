// Metrics of the counters that agents share.

import type { MetricTable } from "./row.ts";

export const COUNTER_METRICS = {
  sluice_counter_engine_up: {
    type: "gauge",
    labels: ["engine"],
    about:
      "1 while the engine of shared counters (`counters.engine`) answers, 0 while it is away and `on_failure` of each component answers. Absent where each process counts for itself.",
  },
  sluice_counter_engine_transitions_total: {
    type: "counter",
    labels: ["engine", "state"],
    about: "How often the engine of shared counters went `away` and came `back`.",
  },
  sluice_counter_takes_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Flows at shared rate limiters: `granted` from leased tokens or credit and `refused` because the engine had just refused as much, both without a wait; `asked` of the engine; `own` where this agent counts the key itself (`peers`).",
  },
  sluice_counter_followed_keys: {
    type: "gauge",
    labels: ["engine"],
    about:
      "Keys of shared rate limiters that this agent follows, because it has leased tokens of theirs or was asked about them just now. At most `counters.lease.max_keys`.",
  },
  sluice_counter_lost_debts_total: {
    type: "counter",
    labels: ["engine"],
    about:
      "Tokens that flows cost beyond their estimates and that were never charged, because the agent or server that counts their buckets was away for too long. That many more tokens are admitted.",
  },
  sluice_counter_requests_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Requests to the engine of shared counters: `answered`, `failed` (no reply in time, or an error), `skipped` (not sent while the engine is away), `refused` (not sent because too many wait for their replies).",
  },
  sluice_counter_members: {
    type: "gauge",
    labels: [],
    about:
      "Agents that count for each other (`counters.engine: peers`), as this one knows them, itself included.",
  },
  sluice_counter_buckets_moved_total: {
    type: "counter",
    labels: ["way"],
    about:
      "Buckets and concurrency slots that changed hands between agents: `received` by this one because it counts them now, or `handed_over`. Each slot counts as one.",
  },
  sluice_counter_hand_overs_missed_total: {
    type: "counter",
    labels: [],
    about:
      "Agents, not buckets, that did not hand over in time when this one joined: what they had counted of its keys may be lost.",
  },
  sluice_counter_copies_lost_total: {
    type: "counter",
    labels: [],
    about:
      "Messages with copies of buckets (`dist_cache.replica_count`) that did not arrive in time.",
  },
  sluice_counter_probes_refused_total: {
    type: "counter",
    labels: [],
    about:
      "Datagrams at `dist_cache.memberlist_bind_addr` that did not prove that their sender knows the secret of the group.",
  },
  sluice_counter_slot_ends_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Ends of shared concurrency slots that the engine of shared counters did not confirm: `kept`, to be sent again when it answers, or `dropped`, because too many were kept already. A slot whose end was dropped expires after `max_inflight_duration`.",
  },
} as const satisfies MetricTable;
