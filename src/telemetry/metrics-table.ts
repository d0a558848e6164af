// Every metric that Sluice speaks: one table that sources, the exposition, the reference page and its
// tests share. Names and labels are a contract with dashboards and with the controller's queries.

export type MetricType = "counter" | "gauge" | "histogram" | "summary";

interface MetricRow {
  readonly type: MetricType;
  readonly labels: readonly string[];
  readonly about: string;
}

const COMPONENT = ["policy_name", "policy_hash", "component_id"] as const;
const FLUX_METER = [
  ...["flux_meter_name", "policy_name"],
  ...["decision_type", "http_status_code", "flow_status"],
] as const;
const SIGNAL = ["signal_name", "sub_circuit_id", "policy_name"] as const;
const HTTP = ["http_method", "http_status_code", "handler_name"] as const;
const GRPC = ["grpc_type", "grpc_service", "grpc_method"] as const;

export const METRICS = {
  flowcontrol_requests_total: {
    type: "counter",
    labels: ["control_point", "agent_group"],
    about: "Checks, whatever their answer.",
  },
  flowcontrol_decisions_total: {
    type: "counter",
    labels: ["control_point", "agent_group", "decision_type"],
    about: "Checks by their answer.",
  },
  flowcontrol_reject_reasons_total: {
    type: "counter",
    labels: ["control_point", "agent_group", "reject_reason"],
    about: "Refused checks by the reason of the stage that refused.",
  },
  flowcontrol_ends_total: {
    type: "counter",
    labels: ["control_point", "agent_group"],
    about: "Calls that end a flow.",
  },
  service_lookups_total: {
    type: "counter",
    labels: ["status"],
    about: "Look-ups of a service by peer or socket address: OK or Error.",
  },
  classifier_counter_total: {
    type: "counter",
    labels: ["policy_name", "policy_hash", "classifier_index"],
    about: "Runs of a classifier, failed ones included.",
  },
  rate_limiter_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "limiter_dropped"],
    about: "Answers of a rate limiter, by the whole check's answer and by its own.",
  },
  concurrency_limiter_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "limiter_dropped"],
    about: "Answers of a concurrency limiter, by the whole check's answer and by its own.",
  },
  sampler_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "sampler_dropped"],
    about: "Answers of a sampler or load ramp, by the whole check's answer and by its own.",
  },
  flux_meter: {
    type: "histogram",
    labels: FLUX_METER,
    about:
      "What a policy's flux meter measures of flows that are over, by default milliseconds. Buckets: the policy's.",
  },
  invalid_flux_meter_total: {
    type: "counter",
    labels: FLUX_METER,
    about: "Flows whose record lacks the number that a flux meter asks for.",
  },
  sluice_access_log_records_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Records of proxies' access logs: taken, or set aside because of an `unknown_source`, `no_decision` or a `bad_decision`.",
  },
  sluice_oddities_total: {
    type: "counter",
    labels: ["kind"],
    about: "Input that was set aside, limits that were met and failure modes that answered.",
  },
  sluice_policies: {
    type: "gauge",
    labels: ["state"],
    about: "Policy documents that are in force (loaded) and that were turned down (refused).",
  },
  sluice_policy_reload_total: {
    type: "counter",
    labels: ["result"],
    about: "Reads of the policy directory after a change: success or failure.",
  },
  signal_reading: {
    type: "summary",
    labels: SIGNAL,
    about:
      "Valid finite readings of a signal, one per tick. Quantiles 0, 0.01, 0.05, 0.5, 0.9, 0.99 and 1, exact over the last 128 readings; none before the first.",
  },
  invalid_signal_readings_total: {
    type: "counter",
    labels: SIGNAL,
    about: "Ticks in which a signal was invalid.",
  },
  infinite_signal_readings_total: {
    type: "counter",
    labels: SIGNAL,
    about: "Ticks in which a signal was infinite.",
  },
  sluice_circuit_ticks_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Ticks of a policy's circuit.",
  },
  sluice_circuit_ticks_skipped_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Ticks that were left out because their time had passed.",
  },
  sluice_circuit_tick_late_ms: {
    type: "gauge",
    labels: ["policy_name"],
    about: "Milliseconds by which the last tick came after its time.",
  },
  sluice_circuit_faults_total: {
    type: "counter",
    labels: ["policy_name", "component_id", "component"],
    about: "Ticks in which a component of a circuit failed; the others went on.",
  },
  sluice_circuit_decisions_total: {
    type: "counter",
    labels: ["policy_name", "kind"],
    about: "Decisions that a circuit made for agents, by the kind of component.",
  },
  sluice_circuit_queries_total: {
    type: "counter",
    labels: ["policy_name", "result"],
    about: "Queries of a circuit: answered, failed, or late (not before the next one was due).",
  },
  sluice_circuit_query_retries_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Attempts at queries of a circuit after the first one failed.",
  },
  sluice_query_latency_ms: {
    type: "histogram",
    labels: [],
    about: "Milliseconds that one attempt at a query took, whatever came of it.",
  },
  sluice_controller_commits_total: {
    type: "counter",
    labels: ["result"],
    about: "Writes of configurations and decisions to the store: success or failure.",
  },
  sluice_alerts_total: {
    type: "counter",
    labels: ["alertmanager", "result"],
    about:
      "Alerts by what became of them: sent, failed (did not arrive), refused (not taken) or dropped (no room).",
  },
  sluice_metrics_inconsistent_total: {
    type: "counter",
    labels: [],
    about: "Samples left out of a scrape because they contradict this table or each other.",
  },
  http_requests_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests. `handler_name` is the pattern of the route.",
  },
  http_errors_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests answered with status 400 or more.",
  },
  http_requests_latency_ms: {
    type: "histogram",
    labels: HTTP,
    about:
      "Milliseconds until an HTTP reply was written. Buckets: `server.http.latency_buckets_ms`.",
  },
  grpc_server_started_total: { type: "counter", labels: GRPC, about: "gRPC calls that began." },
  grpc_server_handled_total: {
    type: "counter",
    labels: [...GRPC, "grpc_code"],
    about: "gRPC calls that ended, by status code.",
  },
  grpc_server_msg_received_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages received by gRPC calls.",
  },
  grpc_server_msg_sent_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages sent by gRPC calls.",
  },
  grpc_server_handling_seconds: {
    type: "histogram",
    labels: GRPC,
    about:
      "Seconds until a gRPC call ended. Buckets: `server.grpc.latency_buckets_ms`, divided by 1000.",
  },
  http2_server_faults_total: {
    type: "counter",
    labels: ["fault"],
    about:
      "What peers did against HTTP/2 or beyond its bounds on connections of the own transport (`server.grpc.transport`), by kind. Every kind is shown from 0.",
  },
  server_refused_connections_total: {
    type: "counter",
    labels: ["reason"],
    about:
      "Connections that were closed before anything could be asked on them, over any transport. `too_many` are open; `slow_first_bytes`, `slow_tls_handshake`, `slow_preface`: not in time; `cleartext_on_tls`, `tls_on_cleartext`: the one where the other is spoken; `broken_tls_handshake`, `broken_preface` (the start of HTTP/2): failed or broken off; `client_name`: the common name of the client's certificate is not allowed. Connections that say nothing and leave are not counted. Every reason is shown from 0.",
  },
} as const satisfies Readonly<Record<string, MetricRow>>;

export type MetricName = keyof typeof METRICS;
type Named<T extends MetricType> = {
  [Name in MetricName]: (typeof METRICS)[Name]["type"] extends T ? Name : never;
}[MetricName];

/** Buckets as they were counted: one per bound and one for what is beyond the last. Not cumulative. */
export interface Buckets {
  /** Inclusive upper bounds, ascending, without +Inf. */
  readonly bounds: readonly number[];
  /** One longer than `bounds`. */
  readonly counts: ArrayLike<number>;
  readonly sum: number;
}

/** Quantiles that their source has computed; none where nothing was observed. */
export interface Summary {
  readonly quantiles: readonly number[];
  /** One for each quantile. */
  readonly values: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** Takes the samples of one scrape. Label values stand in the table's order. */
export interface Sink {
  number(
    name: Named<"counter" | "gauge">,
    labels: readonly (string | number)[],
    value: number,
  ): void;
  buckets(name: Named<"histogram">, labels: readonly (string | number)[], buckets: Buckets): void;
  summary(name: Named<"summary">, labels: readonly (string | number)[], summary: Summary): void;
}

/** Something that counts in its own arrays and tells them when `/metrics` is read. Reading changes nothing. */
export interface Source {
  collect(to: Sink): void;
}
