// Counters that agents keep for each other, as one of the engines: its metrics, and the route that shows its state.

import type { Route } from "#base/handler.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import type { OpenedEngine, SharedCountersOptions } from "../engine.ts";
import { LeaseHolder } from "../leases/lease-holder.ts";
import type { CountersSettings } from "../settings.ts";
import { openPeerCounters, type PeerCounters } from "./peer-counters.ts";

export async function openPeers(
  { lease, peers: settings }: CountersSettings,
  options: SharedCountersOptions,
  changed: (reason: string | undefined) => void,
): Promise<OpenedEngine> {
  const leases = LeaseHolder.random(options.clock, { ...lease });
  const counters = await openPeerCounters({ ...options, settings, leases, changed });
  return {
    counters,
    get counts() {
      return counters.counts;
    },
    get reason() {
      return counters.reason;
    },
    leases: leases.counts,
    slotEnds: counters.group.slots.ends.counts,
    metrics: metricsOf(counters),
    routes: [statsRoute(counters)],
    leave: () => counters.leave(),
    close: () => counters.close(),
  };
}

function metricsOf(counters: PeerCounters): MetricSource {
  return {
    collect(to) {
      const { received, handedOver, unheard, copiesLost, probesRefused } = counters.moved;
      to.number("sluice_counter_members", [], counters.group.ring.members.length);
      to.number("sluice_counter_buckets_moved_total", ["received"], received);
      to.number("sluice_counter_buckets_moved_total", ["handed_over"], handedOver);
      to.number("sluice_counter_hand_overs_missed_total", [], unheard);
      to.number("sluice_counter_copies_lost_total", [], copiesLost);
      to.number("sluice_counter_probes_refused_total", [], probesRefused);
    },
  };
}

/** `GET /v1/distcache/stats`. */
export function statsRoute(counters: PeerCounters): Route {
  return {
    method: "GET",
    path: "/v1/distcache/stats",
    about: "The agents that count for each other, and what this one counts.",
    access: "administration",
    handle: () => {
      const { group, counts, reason, moved } = counters;
      const stats = {
        members: group.ring.members.map(({ name, address }) => ({ name, address })),
        excluded: group.members.excluded,
        joining: group.joining,
        away: reason ?? null,
        limiters: group.owned.count,
        keys: [...group.owned.all].reduce((sum, { buckets }) => sum + buckets.keys, 0),
        leased: [...group.owned.all].reduce((sum, { buckets }) => sum + buckets.leased, 0),
        slots: group.owned.slots.count,
        requests: counts,
        moved,
      };
      const headers = { "content-type": "application/json" };
      return { status: 200, headers, body: JSON.stringify(stats) };
    },
  };
}
