// Every metric that Sluice speaks: one table that sources, the exposition, the reference page and its
// tests share. Names and labels are a contract with dashboards and with the controller's queries.

export type MetricType = "counter" | "gauge" | "histogram";

interface MetricRow {
  readonly type: MetricType;
  readonly labels: readonly string[];
  readonly about: string;
}

const COMPONENT = ["policy_name", "policy_hash", "component_id"] as const;
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

/** Takes the samples of one scrape. Label values stand in the table's order. */
export interface Sink {
  number(
    name: Named<"counter" | "gauge">,
    labels: readonly (string | number)[],
    value: number,
  ): void;
  buckets(name: Named<"histogram">, labels: readonly (string | number)[], buckets: Buckets): void;
}

/** Something that counts in its own arrays and tells them when `/metrics` is read. Reading changes nothing. */
export interface Source {
  collect(to: Sink): void;
}
