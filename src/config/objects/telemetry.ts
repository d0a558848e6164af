// Keys of telemetry: log, metrics, profiles, pipelines, the metrics server, alerts.

import { address, labelName, optionalIp, someText } from "../table/format.ts";
import {
  bool,
  choice,
  count,
  duration,
  logLevels,
  number,
  object,
  objects,
  port,
  string,
  table,
  text,
} from "../table/row.ts";
import type { KeyRule } from "../table/rule.ts";
import { alertmanagerConfig, httpClientConfig } from "./client.ts";

const logWriterConfig = table("LogWriterConfig", "A destination of log lines.", {
  compress: bool(false, "Compress rotated files with gzip."),
  file: string(
    "stderr",
    someText,
    "`stderr`, `stdout`, `default` (a file per service under the system log directory) or a path.",
  ),
  max_age: count(7, "Number of days that rotated files are kept. 0 means no limit."),
  max_backups: count(3, "Number of rotated files that are kept. 0 keeps all."),
  max_size: count(50, "Size in MB at which a file is rotated. 0 never rotates."),
});

export const logConfig = table("LogConfig", "The log of the process.", {
  format: choice(
    "auto",
    ["auto", "json", "text"] as const,
    "Format of lines on standard output and standard error: text for people, or one JSON object for each line. `auto` is text where the stream is a terminal, with colours unless the variable NO_COLOR is set, and JSON elsewhere. Files always hold JSON.",
    { own: true },
  ),
  level: choice(
    "info",
    logLevels("debug", "info", "warn", "error", "fatal", "panic", "trace", "disabled"),
    "Minimum level that is written. Empty means info; disabled writes nothing. debug adds a line for each event, trace one for each message and tick. The route /v1/log/levels changes the level of single components while the process runs.",
  ),
  non_blocking: bool(
    true,
    "Write through a buffer of 1000 lines; when it is full, lines are dropped and counted.",
  ),
  pretty_console: bool(false, "Also write lines as text to stderr. Not for production."),
  writers: objects(
    logWriterConfig,
    "Destinations of lines. Without any, and without pretty_console, lines go to stderr.",
  ),
});

export const metricsConfig = table("MetricsConfig", "The metrics registry.", {
  enable_go_metrics: bool(false, "Export metrics of the language runtime."),
  enable_process_collector: bool(false, "Export metrics of the process: CPU, memory, files."),
  pedantic: bool(
    false,
    "Check the consistency of metrics on every scrape, and reply with an error if one is inconsistent.",
  ),
});

export const profilersConfig = table("ProfilersConfig", "Profiles of the process.", {
  cpu_profiler: bool(
    false,
    "Profile the whole run into a file. The profile and heap routes are refused meanwhile.",
  ),
  profiles_path: string(
    "default",
    someText,
    "Directory of profile files; `default` is a directory of the service under the system log directory.",
  ),
  register_http_routes: bool(true, "Serve /debug/pprof routes."),
});

export const portsConfig = table(
  "PortsConfig",
  "Ports beside the main port. A port that is set must be free; a default that is taken is left out with a warning.",
  {
    debug_port: port(
      8_888,
      "Port that serves /metrics in addition to the main port. 0 means the main port only.",
    ),
    health_check_port: port(
      13_133,
      "Port that answers only whether the process is alive and ready: `GET /`, the probe routes and gRPC health. On the interface of the main port, unless `host` says another. 0 turns it off.",
    ),
    host: string(
      "",
      optionalIp,
      "IP address on which debug_port and health_check_port listen, such as 0.0.0.0 where the main port is on loopback and probes are not. Empty: that of the main port.",
      { own: true },
    ),
    pprof_port: port(
      1_777,
      "Port of profiles (/debug/pprof) on 127.0.0.1, which is administration. 0 turns it off.",
    ),
    zpages_port: port(
      55_679,
      "Port of debug pages on 127.0.0.1, which are administration: recent slow calls (/debug/tracez) and open connections (/debug/connectionz). 0 turns it off.",
    ),
  },
);

const SIZES_FIT: readonly KeyRule[] = [
  {
    key: "send_batch_max_size",
    when: [
      ["send_batch_max_size", "is not", "0"],
      ["send_batch_max_size", "below", "send_batch_size"],
    ],
    wanted: "0 or at least send_batch_size",
    got: ({ send_batch_max_size: most, send_batch_size: size }) => `${most} (of ${size})`,
  },
];

function batch<const N extends string>(name: N, what: string, timeout: string, size: number) {
  return table(
    name,
    `Batches of ${what}.`,
    {
      send_batch_max_size: number(
        "uint32",
        size,
        "Maximum size of a batch; larger ones are split. 0 means no limit. Where it is not set, it is never below send_batch_size.",
        { fitting: ({ send_batch_size: other }) => Math.max(size, Number(other)) },
      ),
      send_batch_size: number(
        "uint32",
        size,
        `Number of ${what} at which a batch is sent. 0 means that only the timeout counts. Where it is not set, it is never above send_batch_max_size.`,
        { fitting: ({ send_batch_max_size: most }) => Math.min(size, Number(most) || size) },
      ),
      timeout: duration(timeout, "Time after which a batch is sent, regardless of its size.", {
        least: "above 0s",
      }),
    },
    SIZES_FIT,
  );
}

const batchAlertsConfig = batch("BatchAlertsConfig", "alerts", "1s", 100);
const batchPrerollupConfig = batch("BatchPrerollupConfig", "raw records", "10s", 10_000);
const batchPostrollupConfig = batch("BatchPostrollupConfig", "rolled-up records", "1s", 100);

const highCardinality = bool(
  false,
  "Export gRPC server metrics per method (grpc_server_handled, _handling, _msg, _started). /metrics always has them.",
);

export const agentOtelConfig = table("AgentOTelConfig", "The agent's telemetry pipeline.", {
  disable_kubelet_scraper: bool(false, "Has no effect.", {
    deprecated: "the scraper that it turned off does not exist; remove the key",
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

const prometheusLabel = table(
  "PrometheusLabel",
  "A label that restricts every query of the controller.",
  {
    name: string("", labelName, "Label name. Required."),
    value: text("Label value."),
  },
  ({ name }) => (name === "" ? [{ key: "name", wanted: labelName.wanted, got: "nothing" }] : []),
);

export const prometheusConfig = table("PrometheusConfig", "The metrics server.", {
  address: string("", address, "Address of the metrics server."),
  labels: objects(prometheusLabel, "Labels added to every query."),
  http_client: object(httpClientConfig),
});

export const alerterConfig = table("AlerterConfig", "The queue of alerts.", {
  channel_size: count(100, "Maximum number of alerts that wait to be sent."),
});

export const alertmanagersConfig = table("AlertmanagersConfig", "Destinations of alerts.", {
  clients: objects(alertmanagerConfig, "Alertmanagers. Each one receives every alert."),
});
