// Shared by tests of the recipes of deploy/recipes with a real Envoy: an agent with a limit, an Envoy that was told how to
// ask it, and a user who sends one request too many.

import type { TestContext } from "node:test";
import { http1 } from "../kit/clients/http.ts";
import { type Bootstrap, endpointOf } from "../kit/servers/bootstrap.ts";
import { type Envoy, startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";

/** A limit of five for each user. */
function limit(selector: object): object {
  const rate_limiter = {
    selectors: [selector],
    in_ports: {
      bucket_capacity: { constant_signal: { value: 5 } },
      fill_amount: { constant_signal: { value: 1 } },
    },
    parameters: { interval: "3600s", limit_by_label_key: "http.request.header.x_user" },
  };
  return { circuit: { components: [{ flow_control: { rate_limiter } }] } };
}

/** The limit as an object that is attached to a gateway or a route of its namespace. */
export function limitOf(kind: "Gateway" | "HTTPRoute", name: string, namespace: string): object {
  const targetRefs = [{ group: "gateway.networking.k8s.io", kind, name }];
  return {
    apiVersion: "fluxninja.com/v1alpha1",
    kind: "Policy",
    metadata: { name: "limit", namespace },
    spec: { targetRefs, ...limit({}) },
  };
}

/** The answers to six requests of one user where the limit is in force. */
export const BOUNDED = [200, 200, 200, 200, 200, 429];

/** An agent with a limit of five at the control point, or with another policy, behind an Envoy whose bootstrap `edit` changes. */
export async function limited(
  t: TestContext,
  policy: string | object,
  edit: (bootstrap: Bootstrap, agent: string) => void,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly agent: string; readonly envoy: Envoy }> {
  const document = typeof policy === "string" ? limit({ control_point: policy }) : policy;
  const sluice = await standalone(t, { policies: { "limit.yaml": JSON.stringify(document) }, env });
  const agent = sluice.address;
  const service = await startService(t);
  const envoy = await startEnvoy(t, { agent, service, edit: (of) => edit(of, agent) });
  return { agent, envoy };
}

/** A cluster of Envoy for one agent, as control planes make them for gRPC. */
export function agentsCluster(name: string, agent: string): object {
  const http2 = { explicit_http_config: { http2_protocol_options: {} } };
  const protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
  return {
    name,
    type: "STATIC",
    typed_extension_protocol_options: {
      [protocol]: { "@type": `type.googleapis.com/${protocol}`, ...http2 },
    },
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [endpointOf(agent)] }] },
  };
}

/** The answers to six requests of one user. */
export async function six(t: TestContext, envoy: Envoy): Promise<readonly number[]> {
  const ask = http1(t, envoy.url);
  const statuses: number[] = [];
  for (let at = 0; at < 6; at++) {
    statuses.push((await ask({ headers: { "x-user": "ann" } })).status);
  }
  return statuses;
}
