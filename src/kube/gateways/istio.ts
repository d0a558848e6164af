// The EnvoyFilter that makes the proxies of an Istio gateway call agents. Istio's extension providers cannot carry the name of
// a control point, and Istio cannot limit a filter to one route.

import { TARGET_GROUP, type Target } from "#policy/document/targets.ts";
import type { AttachSettings } from "./attach-settings.ts";

const TYPES = "type.googleapis.com/envoy.extensions";
const MANAGER = "envoy.filters.network.http_connection_manager";

/** The spec, or the reason why Istio cannot express the target. */
export function envoyFilter(
  { kind, name, section, controlPoint }: Target,
  { agents, failOpen }: AttachSettings,
): object | string {
  if (kind !== "Gateway" || section !== undefined) {
    const what = kind === "Gateway" ? "one listener" : "one HTTPRoute";
    return `Istio cannot ask about the requests of ${what} only: attach the policy to the whole Gateway`;
  }
  const [host, port] = agents.split(":");
  const grpcService = {
    envoy_grpc: { cluster_name: `outbound|${port}||${host}`, authority: host },
  };
  const match = (filter: object) => ({
    context: "GATEWAY",
    listener: { filterChain: { filter: { name: MANAGER, ...filter } } },
  });
  return {
    targetRefs: [{ group: TARGET_GROUP, kind, name }],
    configPatches: [
      {
        applyTo: "NETWORK_FILTER",
        match: match({}),
        patch: {
          operation: "MERGE",
          value: { typed_config: accessLog(controlPoint, grpcService) },
        },
      },
      {
        applyTo: "HTTP_FILTER",
        match: match({ subFilter: { name: "envoy.filters.http.router" } }),
        patch: {
          operation: "INSERT_BEFORE",
          filterClass: "AUTHZ",
          value: {
            name: "envoy.filters.http.ext_authz",
            typed_config: {
              "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthz`,
              transport_api_version: "V3",
              stat_prefix: "sluice",
              grpc_service: {
                ...grpcService,
                timeout: "0.25s",
                initial_metadata: [
                  { key: "control-point", value: controlPoint },
                  // Clients of a gateway choose their baggage, so its members must not become labels.
                  { key: "client-baggage", value: "ignore" },
                ],
              },
              failure_mode_allow: failOpen,
              // Clients would mistake the default, 403, for a rejection.
              status_on_error: { code: "ServiceUnavailable" },
            },
          },
        },
      },
    ],
  };
}

/** Reports ended requests to agents, which then free their slots. Refused requests hold none. */
function accessLog(controlPoint: string, grpcService: object): object {
  return {
    "@type": `${TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    access_log: [
      {
        name: "envoy.access_loggers.http_grpc",
        filter: {
          extension_filter: {
            name: "envoy.access_loggers.extension_filters.cel",
            typed_config: {
              "@type": `${TYPES}.access_loggers.filters.cel.v3.ExpressionFilter`,
              expression: "!response.code_details.startsWith('ext_authz_denied')",
            },
          },
        },
        typed_config: {
          "@type": `${TYPES}.access_loggers.grpc.v3.HttpGrpcAccessLogConfig`,
          common_config: {
            log_name: controlPoint,
            transport_api_version: "V3",
            grpc_service: grpcService,
            // Entries are sent at once, because a request holds its slot until its entry arrives.
            buffer_size_bytes: 0,
          },
        },
      },
    ],
  };
}
