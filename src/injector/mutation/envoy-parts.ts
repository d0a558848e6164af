// Parts of Envoy's bootstrap: its clusters, and the listener that answers the kubelet's probes of the application.

import type { Json, JsonObject } from "../pod.ts";
import { HTTPS_PREFIX, type ProbeListener, type ProbeRequest, TCP_PATH } from "./probes.ts";

export const UPSTREAM = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/**
 * Envoy's highest limit. Sluice limits requests; Envoy's own limits would refuse long-lived ones such as streams and
 * WebSockets.
 */
const UNBOUNDED = 2 ** 32 - 1;

/** An Envoy cluster for the application. */
export function service(name: string, port: number, protocol: JsonObject): JsonObject {
  return {
    name,
    type: "STATIC",
    connect_timeout: "1s",
    typed_extension_protocol_options: {
      [UPSTREAM]: typed(UPSTREAM, {
        ...protocol,
        common_http_protocol_options: { idle_timeout: "1s" },
      }),
    },
    circuit_breakers: {
      thresholds: [
        {
          max_connections: UNBOUNDED,
          max_pending_requests: UNBOUNDED,
          max_requests: UNBOUNDED,
          // Retries must not multiply the load on a failing application.
          retry_budget: { budget_percent: { value: 20 }, min_retry_concurrency: 3 },
        },
      ],
    },
    load_assignment: assignment(name, port),
  };
}

/** The connection manager of the listener for kubelets. */
export function answers({ requests }: ProbeListener): JsonObject {
  const kinds = new Set(requests.map(({ kind }) => kind));
  const routes = new Map(
    requests.filter((each) => each.kind !== "TCP").map((each) => [JSON.stringify(each), each]),
  );
  return {
    stat_prefix: "probes",
    codec_type: "AUTO",
    request_headers_timeout: "10s",
    http_filters: [
      ...(kinds.has("TCP")
        ? [
            {
              name: "envoy.filters.http.health_check",
              typed_config: typed("envoy.extensions.filters.http.health_check.v3.HealthCheck", {
                pass_through_mode: false,
                headers: [is(":path", TCP_PATH)],
                cluster_min_healthy_percentages: { "service-tcp": { value: 100 } },
              }),
            },
          ]
        : []),
      {
        name: "envoy.filters.http.router",
        typed_config: typed("envoy.extensions.filters.http.router.v3.Router", {}),
      },
    ],
    route_config: {
      virtual_hosts: [{ name: "probes", domains: ["*"], routes: [...routes.values()].map(answer) }],
    },
  };
}

function answer(request: Exclude<ProbeRequest, { kind: "TCP" }>): JsonObject {
  // A pooled connection that the application closed does not mean that it fails.
  const route = {
    timeout: "0s",
    retry_policy: { retry_on: "reset,refused-stream", num_retries: 1 },
  };
  if (request.kind === "GRPC") {
    const headers = [is(":path", "/grpc.health.v1.Health/Check"), is(":method", "POST")];
    return {
      match: { prefix: "/", grpc: {}, headers },
      route: { cluster: "service-grpc", ...route },
    };
  }
  const { kind, path } = request;
  const isTls = kind === "HTTPS";
  const headers = [is(":path", isTls ? `${HTTPS_PREFIX}${path}` : path), is(":method", "GET")];
  return {
    match: { prefix: isTls ? `${HTTPS_PREFIX}/` : "/", headers },
    route: isTls
      ? { cluster: "service-tls", prefix_rewrite: "/", ...route }
      : { cluster: "service", ...route },
    // A kubelet would follow a redirect to a path that this listener does not serve. Without the header it is a success.
    response_headers_to_remove: ["location"],
  };
}

export function probeClusters(
  { requests }: ProbeListener,
  application: number,
): readonly JsonObject[] {
  const periods = requests.flatMap((each) => (each.kind === "TCP" ? [each.seconds] : []));
  const period = `${Math.min(...periods)}s`;
  const tls = {
    // Like kubelets, without verifying the certificate.
    ...service("service-tls", application, { explicit_http_config: { http_protocol_options: {} } }),
    transport_socket: {
      name: "envoy.transport_sockets.tls",
      typed_config: typed("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", {}),
    },
  };
  const tcp = {
    name: "service-tcp",
    type: "STATIC",
    health_checks: [
      {
        timeout: "1s",
        interval: period,
        // This cluster has no requests. The application is checked more often until it is up.
        no_traffic_interval: "1s",
        no_traffic_healthy_interval: period,
        unhealthy_threshold: 1,
        healthy_threshold: 1,
        tcp_health_check: {},
      },
    ],
    load_assignment: assignment("service-tcp", application),
  };
  return [
    ...(requests.some(({ kind }) => kind === "HTTPS") ? [tls] : []),
    ...(periods.length === 0 ? [] : [tcp]),
  ];
}

function is(name: string, exact: string): JsonObject {
  return { name, string_match: { exact } };
}

export function typed(type: string, fields: JsonObject): JsonObject {
  return { "@type": `type.googleapis.com/${type}`, ...fields };
}

export function at(address: string, port: number): JsonObject {
  return { socket_address: { address, port_value: port } };
}

export function atEvery(port: number): JsonObject {
  return { socket_address: { address: "::", ipv4_compat: true, port_value: port } };
}

export function assignment(cluster: string, port: number): JsonObject {
  const endpoint: Json = { endpoint: { address: at("127.0.0.1", port) } };
  return { cluster_name: cluster, endpoints: [{ lb_endpoints: [endpoint] }] };
}
