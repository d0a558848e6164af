// The recipes for gateways and for Istio's extension provider, in a real Envoy. No control plane runs: the tests translate the
// recipes' fields into filters, routes and access logs as each control plane does, and name the place that they follow.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { parse } from "yaml";
import { attachmentOf } from "#kube/gateways/attachment.ts";
import type { Target } from "#policy/document/targets.ts";
import { type KubeObject, objectsIn } from "../kit/kube/client.ts";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { until } from "../kit/until.ts";
import { agentsCluster, BOUNDED, limited, limitOf, six } from "./recipe.ts";

const RECIPES = join(import.meta.dirname, "../../deploy/recipes");
const TYPES = "type.googleapis.com/envoy.extensions";

/** The part that a control plane adds to the configuration of an Envoy. */
interface Translation {
  /** Filters before the router. */
  readonly filters: readonly object[];
  /** Settings of the route by the name of the filter. */
  readonly perRoute?: Readonly<Record<string, object>>;
  readonly accessLog?: object;
  /** Name of the cluster of agents. */
  readonly cluster: string;
}

const objects = (file: string) => objectsIn(readFileSync(join(RECIPES, file), "utf8"));

function objectOf(all: readonly KubeObject[], kind: string): KubeObject {
  const found = all.find((each) => each.kind === kind);
  assert.ok(found, kind);
  return found;
}

/** The message that asks agents. A machine that is busy with other tests must not look like an agent that is away. */
function grpcService(cluster: string, wanted: string): object {
  assert.ok(["0.25s", "250ms"].includes(wanted), wanted);
  return { envoy_grpc: { cluster_name: cluster, authority: "sluice" }, timeout: "5s" };
}

/** The gRPC access log that Istio and Envoy Gateway make of a name and an expression. */
function grpcLog(cluster: string, name: string, expression: string): object {
  return {
    name: "envoy.access_loggers.http_grpc",
    filter: {
      extension_filter: {
        name: "envoy.access_loggers.extension_filters.cel",
        typed_config: {
          "@type": `${TYPES}.access_loggers.filters.cel.v3.ExpressionFilter`,
          expression,
        },
      },
    },
    typed_config: {
      "@type": `${TYPES}.access_loggers.grpc.v3.HttpGrpcAccessLogConfig`,
      common_config: {
        log_name: name,
        transport_api_version: "V3",
        grpc_service: { envoy_grpc: { cluster_name: cluster, authority: "sluice" } },
      },
    },
  };
}

/** As Istio does (pilot/pkg/security/authz/builder, pilot/pkg/model/telemetry_logging.go). */
function istio(): Translation {
  const { meshConfig } = parse(readFileSync(join(RECIPES, "istio/mesh.yaml"), "utf8"));
  const all = objects("istio/extension-provider.yaml");
  const policy = objectOf(all, "AuthorizationPolicy");
  const [{ providers, filter }] = objectOf(all, "Telemetry")["spec"].accessLogging;
  const providerOf = (name: string) =>
    meshConfig.extensionProviders.find((each: { name: string }) => each.name === name);
  const { envoyExtAuthzGrpc: asked } = providerOf(policy["spec"].provider.name);
  const { envoyHttpAls: told } = providerOf(providers[0].name);
  const entry = objectOf(all, "ServiceEntry")["spec"];
  for (const { service, port } of [asked, told]) {
    assert.deepEqual([service, port], [entry.hosts[0], entry.ports[0].number]);
  }
  assert.deepEqual(policy["spec"].rules, [{ to: [{ operation: { paths: ["/*"] } }] }]);
  const cluster = `outbound|${asked.port}||${asked.service}`;
  const { name, namespace } = policy.metadata;
  const { maxRequestBytes, allowPartialMessage } = asked.includeRequestBodyInCheck;
  const rule = {
    permissions: [{ url_path: { path: { prefix: "/" } } }],
    principals: [{ any: true }],
  };
  return {
    cluster,
    filters: [
      {
        name: "envoy.filters.http.rbac",
        typed_config: {
          "@type": `${TYPES}.filters.http.rbac.v3.RBAC`,
          shadow_rules: {
            action: "DENY",
            policies: { [`istio-ext-authz-ns[${namespace}]-policy[${name}]-rule[0]`]: rule },
          },
          shadow_rules_stat_prefix: "istio_ext_authz_",
        },
      },
      {
        name: "envoy.filters.http.ext_authz",
        typed_config: {
          "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthz`,
          transport_api_version: "V3",
          failure_mode_allow: asked.failOpen,
          status_on_error: { code: Number(asked.statusOnError) },
          grpc_service: grpcService(cluster, asked.timeout),
          with_request_body: {
            max_request_bytes: maxRequestBytes,
            allow_partial_message: allowPartialMessage,
          },
          filter_enabled_metadata: {
            filter: "envoy.filters.http.rbac",
            path: [{ key: "istio_ext_authz_shadow_effective_policy_id" }],
            value: { string_match: { prefix: "istio-ext-authz" } },
          },
        },
      },
    ],
    accessLog: grpcLog(cluster, told.logName, filter.expression),
  };
}

/** As Envoy Gateway 1.9 does (internal/xds/translator: extauth.go, accesslog.go). */
function envoyGateway(): Translation {
  const all = objects("envoy-gateway/gateway.yaml");
  const policy = objectOf(all, "SecurityPolicy");
  const { settings } = objectOf(all, "EnvoyProxy")["spec"].telemetry.accessLog;
  const told = settings.find((each: { type?: string }) => each.type === "Route");
  const [backend] = policy["spec"].extAuth.grpc.backendRefs;
  const [{ als }] = told.sinks;
  assert.deepEqual([als.type, als.backendRefs], ["HTTP", [backend]]);
  const translation = securityPolicy(policy);
  return { ...translation, accessLog: grpcLog(translation.cluster, als.logName, told.matches[0]) };
}

function securityPolicy(policy: KubeObject): Translation {
  const { extAuth } = policy["spec"];
  const [backend] = extAuth.grpc.backendRefs;
  const owner = `securitypolicy/${policy.metadata.namespace}/${policy.metadata.name}`;
  const cluster = `${owner}/${backend.namespace}/${backend.name}`;
  const filter = `envoy.filters.http.ext_authz/${owner}`;
  const extensions = extAuth.contextExtensions.map((each: { name: string; value: string }) => [
    each.name,
    each.value,
  ]);
  return {
    cluster,
    filters: [
      {
        name: filter,
        disabled: true,
        typed_config: {
          "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthz`,
          transport_api_version: "V3",
          failure_mode_allow: extAuth.failOpen,
          status_on_error: { code: extAuth.statusOnError },
          grpc_service: grpcService(cluster, extAuth.timeout),
        },
      },
    ],
    perRoute: {
      [filter]: {
        "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthzPerRoute`,
        check_settings: { context_extensions: Object.fromEntries(extensions) },
      },
    },
  };
}

/** As Contour 1.33 does (internal/envoy/v3: FilterExternalAuthz, routeAuthzContext). */
function contour(authorization: KubeObject["spec"]): Translation {
  const { metadata } = objectOf(objects("contour/httpproxy.yaml"), "ExtensionService");
  const { namespace, name } = authorization.extensionRef;
  assert.deepEqual([namespace, name], [metadata.namespace, metadata.name]);
  const cluster = `extension/${namespace}/${name}`;
  const { maxRequestBytes, allowPartialMessage } = authorization.withRequestBody;
  const filter = "envoy.filters.http.ext_authz";
  return {
    cluster,
    filters: [
      {
        name: filter,
        typed_config: {
          "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthz`,
          transport_api_version: "V3",
          clear_route_cache: true,
          include_peer_certificate: true,
          failure_mode_allow: authorization.failOpen,
          status_on_error: { code: "Forbidden" },
          grpc_service: grpcService(cluster, authorization.responseTimeout),
          with_request_body: {
            max_request_bytes: maxRequestBytes,
            allow_partial_message: allowPartialMessage,
          },
        },
      },
    ],
    perRoute: {
      [filter]: {
        "@type": `${TYPES}.filters.http.ext_authz.v3.ExtAuthzPerRoute`,
        check_settings: { context_extensions: authorization.authPolicy.context },
      },
    },
  };
}

function apply(
  bootstrap: Bootstrap,
  agent: string,
  { filters, perRoute, accessLog, cluster }: Translation,
): void {
  bootstrap.set(AT.filters, [
    ...filters,
    {
      name: "envoy.filters.http.router",
      typed_config: { "@type": `${TYPES}.filters.http.router.v3.Router` },
    },
  ]);
  if (perRoute !== undefined) bootstrap.set([...AT.routes, 1, "typed_per_filter_config"], perRoute);
  // The first log is the one that the test's kit reads.
  bootstrap.set([...AT.accessLog, "length"], 1);
  if (accessLog !== undefined) bootstrap.set([...AT.accessLog, 1], accessLog);
  bootstrap.insert(["static_resources", "clusters"], 0, agentsCluster(cluster, agent));
}

/** A limit of five at the control point, in front of an Envoy that was told this. */
const behind = (
  t: TestContext,
  translation: Translation,
  controlPoint: string,
  env: Readonly<Record<string, string>> = {},
) => limited(t, controlPoint, (bootstrap, agent) => apply(bootstrap, agent, translation), env);

test("an attached policy: Envoy Gateway has what the controller writes, and the sixth request is rejected", async (t) => {
  const target: Target = {
    kind: "HTTPRoute",
    namespace: "shop",
    name: "checkout",
    section: undefined,
    controlPoint: "httproute/shop/checkout",
  };
  const settings = { agents: "sluice-agent.sluice.svc.cluster.local:8080", failOpen: false };
  const controllers = ["gateway.envoyproxy.io/gatewayclass-controller"];
  const { wanted } = attachmentOf(target, controllers, [], settings);
  const policy = wanted[0]?.object as KubeObject | undefined;
  assert.ok(policy);
  const { envoy } = await limited(t, limitOf("HTTPRoute", "checkout", "shop"), (bootstrap, agent) =>
    apply(bootstrap, agent, securityPolicy(policy)),
  );
  assert.deepEqual(await six(t, envoy), BOUNDED);
});

const DEFAULT = { SVC_AGENT_FLOW_CONTROL_DEFAULT_CONTROL_POINT: "ingress" };

for (const [gateway, translate, controlPoint, env] of [
  ["Istio's extension provider", istio, "ingress", DEFAULT],
  ["Envoy Gateway", envoyGateway, "gateway", {}],
] as const) {
  test(`${gateway}: the sixth request is rejected, and the others are reported when they end`, async (t) => {
    const { agent, envoy } = await behind(t, translate(), controlPoint, env);
    assert.deepEqual(await six(t, envoy), BOUNDED);
    await until("the ends are heard of", async () => {
      const records = await counted(agent, "sluice_access_log_records_total", "result");
      return records["taken"] === 5;
    });
  });
}

test("Istio's extension provider: without a default control point nothing is limited, which is counted", async (t) => {
  const { agent, envoy } = await behind(t, istio(), "ingress");
  assert.deepEqual(await six(t, envoy), Array(6).fill(200));
  const anomalies = await counted(agent, "sluice_anomalies_total", "kind");
  assert.equal(anomalies["no_control_point"], 6);
});

test("Contour: the sixth request is rejected", async (t) => {
  const { virtualhost } = objectOf(objects("contour/httpproxy.yaml"), "HTTPProxy")["spec"];
  const { envoy } = await behind(t, contour(virtualhost.authorization), "gateway");
  assert.deepEqual(await six(t, envoy), BOUNDED);
});

test("Contour, for all virtual hosts: the sixth request is rejected", async (t) => {
  const configuration = objectOf(objects("contour/global.yaml"), "ContourConfiguration");
  const { envoy } = await behind(t, contour(configuration["spec"].globalExtAuth), "gateway");
  assert.deepEqual(await six(t, envoy), BOUNDED);
});
