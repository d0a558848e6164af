// Metrics of finished flows: flux meters, and the records that feed them.

import type { MetricTable } from "./row.ts";

const FLUX_METER = [
  "flux_meter_name",
  "policy_name",
  "decision_type",
  "http_status_code",
  "flow_status",
] as const;

export const FINISHED_FLOW_METRICS = {
  flux_meter: {
    type: "histogram",
    labels: FLUX_METER,
    about:
      "Values that a policy's flux meter measures in finished flows, by default milliseconds. The policy defines the buckets.",
  },
  invalid_flux_meter_total: {
    type: "counter",
    labels: FLUX_METER,
    about: "Finished flows whose access log record lacks the number that a flux meter measures.",
  },
  sluice_access_log_records_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Records of finished flows, from access logs of proxies and spans of SDKs: `taken`, or not used because of an `unknown_source`, `no_decision`, a `bad_decision` or, without a decision, an `unknown_request`. Of Envoy's gRPC access log also `unfinished` (logged before the end of the request), `tcp` (of a TCP proxy), `too_large` (more than 256 KiB), `malformed`, and `too_many` (the rest of a message with more than 10 000 entries).",
  },
  sluice_access_log_streams: {
    type: "gauge",
    labels: [],
    about: "Open streams of Envoy's gRPC access log.",
  },
  sluice_access_log_streams_refused_total: {
    type: "counter",
    labels: ["reason"],
    about:
      "Streams of Envoy's gRPC access log that were refused: 2 000 are open (`all`), or their `client` has as many open as are free. What such an Envoy reports is lost.",
  },
  sluice_reported_slots_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Slots of concurrency limits whose flows were reported as finished: `returned`, or `unknown`: they had expired, had been returned before, or belong to an agent that has restarted or that does not share its counters.",
  },
  sluice_reservations: {
    type: "gauge",
    labels: [],
    about:
      'Estimates that are to be settled when their flows end: at most 100 000, of which one policy has at most half. Further flows are charged their estimates, which `sluice_settlements_total{result="no_room"}` counts.',
  },
  sluice_reported_settlements_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Estimates whose flows were reported as finished: `settled`; `unknown`, because they had been settled before or were reported too late; or `elsewhere`: they belong to another agent, or to this one before it restarted.",
  },
  sluice_flow_end_settlements_total: {
    type: "counter",
    labels: ["result"],
    about:
      "FlowEnd calls with a reservation or a cost: `settled`; `unknown`, because the flow reserved nothing, had been settled before or ended too late; or `elsewhere`: another agent checked the flow, or this one before it restarted.",
  },
  sluice_flows_forgotten_total: {
    type: "counter",
    labels: [],
    about:
      "Flows that were forgotten because there were too many before a record without a decision could report them: their slots are free when they expire, and flux meters do not measure them.",
  },
  sluice_bad_measurements_total: {
    type: "counter",
    labels: [],
    about:
      "Negative durations and lengths in records of finished flows, where a flux meter asked for them, and costs (sluice.cost) that are no number of tokens. They are not used.",
  },
} as const satisfies MetricTable;
