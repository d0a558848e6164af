// Keys of what the process says about itself and hears about others: log, metrics, profiles, pipelines,
// the metrics server.

import { address, anyText, labelName, someText } from "../format.ts";
import {
  bool,
  type Complaint,
  choice,
  duration,
  number,
  object,
  objects,
  string,
  table,
} from "../row.ts";
import { alertmanagerConfig, httpClientConfig } from "./client.ts";

export const logWriterConfig = table("LogWriterConfig", "One place that log lines go to.", {
  compress: bool(false, "Compress rotated files with gzip."),
  file: string(
    "stderr",
    someText,
    "`stderr`, `stdout`, `default` (a file per service under the system log directory) or a path.",
  ),
  max_age: number(
    "int64",
    7,
    "Days that rotated files are kept. 0 keeps them whatever their age.",
    { min: 0 },
  ),
  max_backups: number("int64", 3, "Rotated files kept. 0 keeps all.", { min: 0 }),
  max_size: number("int64", 50, "Size in MB at which a file is rotated. 0 never rotates.", {
    min: 0,
  }),
});

export const logConfig = table("LogConfig", "The log of the process.", {
  level: choice(
    "info",
    [
      ...["", "debug", "DEBUG", "info", "INFO", "warn", "WARN", "error", "ERROR", "fatal", "FATAL"],
      ...["panic", "PANIC", "trace", "TRACE", "disabled", "DISABLED"],
    ] as const,
    "Least level that is written. Empty is info; disabled writes nothing.",
  ),
  non_blocking: bool(
    true,
    "Write through a buffer of 1000 lines; when it is full, lines are dropped and counted.",
  ),
  pretty_console: bool(false, "Also write lines for human eyes to stderr. Not for production."),
  writers: objects(
    logWriterConfig,
    "Where lines go. With none, and no pretty_console, they go to stderr.",
  ),
});

export const metricsConfig = table("MetricsConfig", "The metrics registry.", {
  enable_go_metrics: bool(false, "Add metrics of the language runtime."),
  enable_process_collector: bool(false, "Add metrics of the process: CPU, memory, files."),
  pedantic: bool(
    false,
    "Check the consistency of metrics on every scrape; an inconsistent one turns /metrics into an error.",
  ),
});

export const profilersConfig = table("ProfilersConfig", "Profiles of the process.", {
  cpu_profiler: bool(
    false,
    "Profile from start to stop into a file. The profile and heap routes are refused meanwhile.",
  ),
  profiles_path: string(
    "default",
    someText,
    "Directory of profile files; `default` is one per service under the system log directory.",
  ),
  register_http_routes: bool(true, "Serve /debug/pprof routes."),
});

const PORT = { min: 0, max: 65_535 } as const;

export const portsConfig = table("PortsConfig", "Ports of the telemetry pipeline.", {
  debug_port: number(
    "uint32",
    8_888,
    "Port that serves /metrics besides the main one. 0 serves it on the main port only.",
    PORT,
  ),
  health_check_port: number(
    "uint32",
    13_133,
    "Port of the pipeline's health check. 0 is off.",
    PORT,
  ),
  pprof_port: number("uint32", 1_777, "Port of the pipeline's profiles. 0 is off.", PORT),
  zpages_port: number("uint32", 55_679, "Port of the pipeline's debug pages. 0 is off.", PORT),
});

function sizesFit(batch: {
  readonly send_batch_max_size: number;
  readonly send_batch_size: number;
}): readonly Complaint[] {
  const { send_batch_max_size: most, send_batch_size: size } = batch;
  if (most === 0 || most >= size) return [];
  const wanted = `0 or at least send_batch_size (${size})`;
  return [{ key: "send_batch_max_size", wanted, got: `${most}` }];
}

function batch<const N extends string>(name: N, what: string, timeout: string, size: number) {
  return table(
    name,
    `Batches of ${what}.`,
    {
      send_batch_max_size: number(
        "uint32",
        size,
        "Largest batch; larger ones are split. 0 means no limit.",
      ),
      send_batch_size: number(
        "uint32",
        size,
        `Number of ${what} at which a batch is sent. 0 leaves it to the timeout.`,
      ),
      timeout: duration(timeout, "Time after which a batch is sent whatever its size.", {
        least: "above 0s",
      }),
    },
    sizesFit,
  );
}

export const batchAlertsConfig = batch("BatchAlertsConfig", "alerts", "1s", 100);
export const batchPrerollupConfig = batch(
  "BatchPrerollupConfig",
  "records before they are rolled up",
  "10s",
  10_000,
);
export const batchPostrollupConfig = batch(
  "BatchPostrollupConfig",
  "records after they are rolled up",
  "1s",
  100,
);

const highCardinality = bool(
  false,
  "Keep per-method gRPC server metrics (grpc_server_handled, _handling, _msg, _started) in what is exported. /metrics always has them.",
);

export const agentOtelConfig = table("AgentOTelConfig", "The agent's telemetry pipeline.", {
  disable_kubelet_scraper: bool(false, "Has no effect.", {
    deprecated: "the scraper that it turned off does not exist; drop the key",
  }),
  disable_kubernetes_scraper: bool(false, "Do not collect metrics of cluster resources."),
  enable_high_cardinality_platform_metrics: highCardinality,
  batch_alerts: object(batchAlertsConfig),
  batch_postrollup: object(batchPostrollupConfig),
  batch_prerollup: object(batchPrerollupConfig),
  ports: object(portsConfig),
});

export const controllerOtelConfig = table(
  "ControllerOTelConfig",
  "The controller's telemetry pipeline.",
  {
    enable_high_cardinality_platform_metrics: highCardinality,
    batch_alerts: object(batchAlertsConfig),
    ports: object(portsConfig),
  },
);

export const prometheusLabel = table(
  "PrometheusLabel",
  "A label that every query of the controller is narrowed to.",
  {
    name: string("", labelName, "Label name. Required."),
    value: string("", anyText, "Label value."),
  },
  ({ name }) => (name === "" ? [{ key: "name", wanted: labelName.wanted, got: "nothing" }] : []),
);

export const prometheusConfig = table("PrometheusConfig", "The metrics server.", {
  address: string("", address, "Where it listens."),
  labels: objects(prometheusLabel, "Labels attached to every query."),
  http_client: object(httpClientConfig),
});

export const alerterConfig = table("AlerterConfig", "Alerts on their way out.", {
  channel_size: number("int64", 100, "Alerts that may wait to be sent.", { min: 0 }),
});

export const alertmanagersConfig = table("AlertmanagersConfig", "Where alerts are sent.", {
  clients: objects(alertmanagerConfig, "Alertmanagers; each gets every alert."),
});
