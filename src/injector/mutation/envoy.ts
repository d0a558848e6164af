// The Envoy that injection puts before an application without a mesh. Its bootstrap equals deploy/envoy/sidecar.yaml with the
// ports of the pod, as a test checks. It is passed as an argument, so the namespace needs no ConfigMap.

import type { Container, JsonObject } from "../pod.ts";
import type { ClientBaggage, EnvoySettings, InjectionSettings } from "../settings.ts";
import type { EscapedSlashes, Upgrade } from "./annotations.ts";
import {
  answers,
  assignment,
  at,
  atEvery,
  probeClusters,
  service,
  typed,
  UPSTREAM,
} from "./envoy-parts.ts";
import type { ProbeListener } from "./probes.ts";
import { common } from "./sidecar.ts";

export const ENVOY_NAME = "sluice-envoy";

export interface EnvoyPorts {
  /** The port that clients call. */
  readonly envoy: number;
  readonly admin: number;
  readonly agent: number;
  readonly application: number;
  /** Undefined if kubelets probe nothing behind Envoy. */
  readonly probes?: ProbeListener | undefined;
}

/** How Envoy treats requests, as the author of the pod chooses. */
export interface EnvoyTraffic {
  readonly clientBaggage: ClientBaggage;
  readonly escapedSlashes: EscapedSlashes;
  readonly upgrades: readonly Upgrade[];
  /** Idle timeout of connections and streams in seconds; 0 for none. */
  readonly idleSeconds: number;
  /** The first bytes of a request's body, which classifiers can read; the request waits for them. */
  readonly bodyBytes: number;
}

export const TRAFFIC: EnvoyTraffic = {
  clientBaggage: "ignore",
  escapedSlashes: "reject",
  upgrades: ["websocket"],
  idleSeconds: 3_600,
  bodyBytes: 8_192,
};

const SLASHES = {
  reject: "REJECT_REQUEST",
  keep: "KEEP_UNCHANGED",
  redirect: "UNESCAPE_AND_REDIRECT",
} as const satisfies Record<EscapedSlashes, string>;

export function envoyContainer(
  settings: EnvoySettings,
  ports: EnvoyPorts,
  ipFamily: InjectionSettings["ipFamily"],
  traffic: EnvoyTraffic,
  preStop: JsonObject | undefined,
): Container {
  return {
    name: ENVOY_NAME,
    args: [
      "--config-yaml",
      JSON.stringify(envoyBootstrap(ports, ipFamily, traffic)),
      "--disable-hot-restart",
      // By default Envoy starts a worker for each core of the node.
      "--concurrency",
      String(settings.concurrency),
      // The next response asks clients to close their connections, because the pod ends in seconds.
      "--drain-strategy",
      "immediate",
    ],
    ports: [
      { name: "sluice-envoy", containerPort: ports.envoy, protocol: "TCP" },
      ...(ports.probes === undefined
        ? []
        : [{ name: "sluice-probes", containerPort: ports.probes.port, protocol: "TCP" }]),
    ],
    startupProbe: { tcpSocket: { port: ports.envoy }, periodSeconds: 1, failureThreshold: 60 },
    readinessProbe: { tcpSocket: { port: ports.envoy }, periodSeconds: 5 },
    ...common(settings, settings.resources, preStop),
  };
}

/**
 * Tells Envoy to drain, then waits. Envoy asks clients to close their connections (`connection: close`, GOAWAY) and still
 * answers all requests. The agent does this, because its image has a program that can send a request.
 */
export function drainingEnvoy(admin: number, seconds: number): JsonObject {
  const url = `http://127.0.0.1:${admin}/drain_listeners?graceful&skip_exit`;
  const options = `{ method: "POST", signal: AbortSignal.timeout(2_000) }`;
  const wait = seconds === 0 ? "" : `.then(() => setTimeout(() => {}, ${seconds * 1_000}))`;
  const script = `fetch("${url}", ${options}).catch(() => {})${wait}`;
  return { exec: { command: ["node", "-e", script] } };
}

const NETWORK = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const EXT_AUTHZ = "envoy.extensions.filters.http.ext_authz.v3";
const DECISION = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:aperture.check_response)%";
const DURATION = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:ext_authz_duration)%";

/** The check must not wait for a body that ends only after the answer. */
const WITHOUT_BODY: JsonObject = {
  "envoy.filters.http.ext_authz": typed(`${EXT_AUTHZ}.ExtAuthzPerRoute`, {
    check_settings: { disable_request_body_buffering: true },
  }),
};

/** Envoy listens on every address of the pod, in IPv6 clusters also on those of IPv4. */
export function envoyBootstrap(
  { envoy, admin, agent, application, probes }: EnvoyPorts,
  ipFamily: InjectionSettings["ipFamily"],
  traffic: EnvoyTraffic,
): JsonObject {
  const listener = (name: string, port: number, manager: JsonObject): JsonObject => ({
    name,
    address: ipFamily === "IPv6" ? atEvery(port) : at("0.0.0.0", port),
    filter_chains: [
      {
        filters: [
          {
            name: "envoy.filters.network.http_connection_manager",
            typed_config: typed(NETWORK, manager),
          },
        ],
      },
    ],
  });
  return {
    admin: { address: at("127.0.0.1", admin) },
    static_resources: {
      listeners: [
        listener("ingress", envoy, connections(traffic)),
        ...(probes === undefined ? [] : [listener("probes", probes.port, answers(probes))]),
      ],
      clusters: [
        {
          name: "sluice",
          type: "STATIC",
          connect_timeout: "0.25s",
          typed_extension_protocol_options: {
            [UPSTREAM]: typed(UPSTREAM, { explicit_http_config: { http2_protocol_options: {} } }),
          },
          health_checks: [
            {
              timeout: "1s",
              interval: "1s",
              no_traffic_interval: "1s",
              unhealthy_threshold: 1,
              healthy_threshold: 1,
              grpc_health_check: { service_name: "envoy.service.auth.v3.Authorization" },
            },
          ],
          load_assignment: assignment("sluice", agent),
        },
        service("service", application, {
          use_downstream_protocol_config: { http_protocol_options: {}, http2_protocol_options: {} },
        }),
        // gRPC calls are judged without their bodies. They are forwarded as HTTP/2 only, so that no other request can hide
        // its body by claiming to be gRPC.
        service("service-grpc", application, {
          explicit_http_config: { http2_protocol_options: {} },
        }),
        ...(probes === undefined ? [] : probeClusters(probes, application)),
      ],
    },
  };
}

const connections = ({
  clientBaggage,
  escapedSlashes,
  upgrades,
  idleSeconds,
  bodyBytes,
}: EnvoyTraffic): JsonObject => ({
  stat_prefix: "ingress",
  codec_type: "AUTO",
  stream_idle_timeout: `${idleSeconds}s`,
  common_http_protocol_options: { idle_timeout: `${idleSeconds}s` },
  request_headers_timeout: "10s",
  http_protocol_options: { accept_http_10: true, default_host_for_http_10: "localhost" },
  upgrade_configs: upgrades.map((type) => ({ upgrade_type: type })),
  normalize_path: true,
  merge_slashes: true,
  path_with_escaped_slashes_action: SLASHES[escapedSlashes],
  access_log: [
    {
      name: "envoy.access_loggers.stdout",
      typed_config: typed("envoy.extensions.access_loggers.stream.v3.StdoutAccessLog", {
        log_format: {
          json_format: {
            method: "%REQ(:METHOD)%",
            path: "%REQ(:PATH)%",
            status: "%RESPONSE_CODE%",
            flags: "%RESPONSE_FLAGS%",
            details: "%RESPONSE_CODE_DETAILS%",
            check_response: DECISION,
          },
        },
      }),
    },
    {
      name: "envoy.access_loggers.open_telemetry",
      typed_config: typed(
        "envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
        {
          common_config: {
            log_name: "ingress",
            transport_api_version: "V3",
            grpc_service: { envoy_grpc: { cluster_name: "sluice" } },
            buffer_size_bytes: 0,
          },
          disable_builtin_labels: true,
          attributes: {
            values: [
              attribute("aperture.source", "envoy"),
              attribute("aperture.check_response", DECISION),
              attribute("http.status_code", "%RESPONSE_CODE%"),
              attribute("authz_duration", DURATION),
              ...[
                "BYTES_RECEIVED",
                "BYTES_SENT",
                "DURATION",
                "REQUEST_DURATION",
                "REQUEST_TX_DURATION",
                "RESPONSE_DURATION",
                "RESPONSE_TX_DURATION",
              ].map((name) => attribute(name, `%${name}%`)),
            ],
          },
        },
      ),
    },
  ],
  http_filters: [
    {
      name: "envoy.filters.http.ext_authz",
      typed_config: typed(`${EXT_AUTHZ}.ExtAuthz`, {
        transport_api_version: "V3",
        stat_prefix: "sluice",
        grpc_service: {
          envoy_grpc: { cluster_name: "sluice" },
          timeout: "0.25s",
          initial_metadata: [
            { key: "control-point", value: "ingress" },
            { key: "client-baggage", value: clientBaggage },
          ],
        },
        failure_mode_allow: false,
        status_on_error: { code: "ServiceUnavailable" },
        ...(bodyBytes > 0 && {
          with_request_body: { max_request_bytes: bodyBytes, allow_partial_message: true },
        }),
      }),
    },
    {
      name: "envoy.filters.http.router",
      typed_config: typed("envoy.extensions.filters.http.router.v3.Router", {}),
    },
  ],
  route_config: {
    virtual_hosts: [
      {
        name: "service",
        domains: ["*"],
        retry_policy: { retry_on: "reset-before-request,refused-stream", num_retries: 2 },
        routes: [
          // CONNECT requests have a host and no path.
          ...(upgrades.includes("CONNECT")
            ? [
                {
                  match: { connect_matcher: {} },
                  route: { cluster: "service", timeout: "0s" },
                  typed_per_filter_config: WITHOUT_BODY,
                },
              ]
            : []),
          {
            match: { prefix: "/", grpc: {} },
            route: { cluster: "service-grpc", timeout: "0s" },
            typed_per_filter_config: WITHOUT_BODY,
          },
          {
            match: {
              prefix: "/",
              headers: [
                { name: ":method", string_match: { safe_regex: { regex: "GET|HEAD|OPTIONS" } } },
              ],
            },
            route: {
              cluster: "service",
              timeout: "0s",
              retry_policy: { retry_on: "reset,refused-stream", num_retries: 1 },
            },
          },
          { match: { prefix: "/" }, route: { cluster: "service", timeout: "0s" } },
        ],
      },
    ],
  },
});

function attribute(key: string, value: string): JsonObject {
  return { key, value: { string_value: value } };
}
