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
      "Records of finished flows, from access logs of proxies and spans of SDKs: `taken`, or not used because of an `unknown_source`, `no_decision`, a `bad_decision` or, without a decision, an `unknown_request`. Of Envoy's gRPC access log also `unfinished` (logged before the end of the request), `tcp` (of a TCP proxy), `malformed`, and `too_many` (the rest of a message with more than 10 000 entries).",
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
      "Flows whose estimates are to be settled when they end. At most 50 000; further flows are charged their estimates.",
  },
  sluice_reported_settlements_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Estimates whose flows were reported as finished: `settled`, or `unknown`: they had been settled before, were reported too late, or belong to another agent or one that has restarted.",
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
