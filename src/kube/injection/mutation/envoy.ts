// The Envoy that injection puts before an application, where there is no mesh. Its bootstrap is that of
// deploy/envoy/sidecar.yaml with the ports of the pod, which a test compares. It travels as an argument, so that no ConfigMap
// is needed in the namespace.

import type { Container, Json, JsonObject } from "../pod.ts";
import type { ClientBaggage, EnvoySettings, InjectionSettings } from "../settings.ts";
import { common, type Wait } from "./sidecar.ts";

export const ENVOY_NAME = "sluice-envoy";

export interface EnvoyPorts {
  /** The port that clients call. */
  readonly envoy: number;
  readonly admin: number;
  readonly agent: number;
  readonly application: number;
}

export function envoyContainer(
  settings: EnvoySettings,
  ports: EnvoyPorts,
  ipFamily: InjectionSettings["ipFamily"],
  clientBaggage: ClientBaggage,
  wait: Wait | undefined,
): Container {
  return {
    name: ENVOY_NAME,
    args: [
      "--config-yaml",
      JSON.stringify(envoyBootstrap(ports, ipFamily, clientBaggage)),
      "--disable-hot-restart",
      // Without it Envoy starts a worker for each core of the node.
      "--concurrency",
      String(settings.concurrency),
    ],
    ports: [{ name: "sluice-envoy", containerPort: ports.envoy, protocol: "TCP" }],
    startupProbe: { tcpSocket: { port: ports.envoy }, periodSeconds: 1, failureThreshold: 60 },
    readinessProbe: { tcpSocket: { port: ports.envoy }, periodSeconds: 5 },
    ...common(settings, settings.resources, wait),
  };
}

const NETWORK = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const DECISION = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:aperture.check_response)%";
const DURATION = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:ext_authz_duration)%";

/** Envoy listens on every address of the pod; in a cluster of IPv6 those of IPv4 are among them. */
export function envoyBootstrap(
  { envoy, admin, agent, application }: EnvoyPorts,
  ipFamily: InjectionSettings["ipFamily"],
  clientBaggage: ClientBaggage,
): JsonObject {
  return {
    admin: { address: at("127.0.0.1", admin) },
    static_resources: {
      listeners: [
        {
          name: "ingress",
          address: ipFamily === "IPv6" ? atEvery(envoy) : at("0.0.0.0", envoy),
          filter_chains: [
            {
              filters: [
                {
                  name: "envoy.filters.network.http_connection_manager",
                  typed_config: typed(NETWORK, connections(clientBaggage)),
                },
              ],
            },
          ],
        },
      ],
      clusters: [
        {
          name: "sluice",
          type: "STATIC",
          connect_timeout: "0.25s",
          typed_extension_protocol_options: {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
              "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
              { explicit_http_config: { http2_protocol_options: {} } },
            ),
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
        {
          name: "service",
          type: "STATIC",
          connect_timeout: "1s",
          load_assignment: assignment("service", application),
        },
      ],
    },
  };
}

const connections = (clientBaggage: ClientBaggage): JsonObject => ({
  stat_prefix: "ingress",
  codec_type: "AUTO",
  normalize_path: true,
  merge_slashes: true,
  path_with_escaped_slashes_action: "UNESCAPE_AND_REDIRECT",
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
      typed_config: typed("envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", {
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
        with_request_body: { max_request_bytes: 8192, allow_partial_message: true },
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
        routes: [{ match: { prefix: "/" }, route: { cluster: "service" } }],
      },
    ],
  },
});

function typed(type: string, fields: JsonObject): JsonObject {
  return { "@type": `type.googleapis.com/${type}`, ...fields };
}

function at(address: string, port: number): JsonObject {
  return { socket_address: { address, port_value: port } };
}

function atEvery(port: number): JsonObject {
  return { socket_address: { address: "::", ipv4_compat: true, port_value: port } };
}

function assignment(cluster: string, port: number): JsonObject {
  const endpoint: Json = { endpoint: { address: at("127.0.0.1", port) } };
  return { cluster_name: cluster, endpoints: [{ lb_endpoints: [endpoint] }] };
}

function attribute(key: string, value: string): JsonObject {
  return { key, value: { string_value: value } };
}
