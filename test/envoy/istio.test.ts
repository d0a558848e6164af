// The patches of deploy/recipes/istio and of attached policies, merged into the configuration of a real Envoy as Istio would merge them: requests
// above a limit are rejected, and the agent learns of ended ones.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { attachmentOf } from "#kube/gateways/attachment.ts";
import type { Target } from "#policy/document/targets.ts";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import { until } from "../kit/until.ts";
import { agentsCluster, BOUNDED, limited, limitOf, six } from "./recipe.ts";

const RECIPE = join(import.meta.dirname, "../../deploy/recipes/istio/sidecar.yaml");

/** The agent of the pod, as the recipe names it. */
const AGENT = "127.0.0.1:14280";

interface Patch {
  readonly applyTo: string;
  readonly match: { readonly context: string; readonly listener: unknown };
  readonly patch: {
    readonly operation: string;
    readonly filterClass?: string;
    readonly value: {
      readonly name?: string;
      readonly typed_config: {
        readonly "@type": string;
        readonly access_log?: readonly object[];
        readonly grpc_service?: { timeout: string };
      };
    };
  };
}

function patchesFor(context: string, agent: string): readonly Patch[] {
  const text = readFileSync(RECIPE, "utf8");
  assert.equal(text.split(`"${AGENT}"`).length, 5, "each patch names the agent once");
  const { kind, spec } = parse(text.replaceAll(`"${AGENT}"`, `"${agent}"`));
  assert.equal(kind, "EnvoyFilter");
  const patches = (spec.configPatches as readonly Patch[]).filter(
    ({ match }) => match.context === context,
  );
  assert.equal(patches.length, 2);
  return patches;
}

/** Applies the two kinds of patches to a listener that has only a router, like one of Istio's. */
function merge(bootstrap: Bootstrap, patches: readonly Patch[]): void {
  bootstrap.set(AT.filters, [
    {
      name: "envoy.filters.http.router",
      typed_config: {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
      },
    },
  ]);
  for (const { applyTo, patch } of patches) {
    const { typed_config } = patch.value;
    if (applyTo === "HTTP_FILTER") {
      assert.equal(patch.operation, "INSERT_BEFORE");
      assert.ok(typed_config.grpc_service);
      // A machine that is busy with other tests must not look like an agent that is away.
      typed_config.grpc_service.timeout = "5s";
      bootstrap.insert(AT.filters, 0, patch.value);
    } else {
      assert.deepEqual([applyTo, patch.operation], ["NETWORK_FILTER", "MERGE"]);
      // Lists of merged messages are joined: behind the log that the test reads stands that of the recipe.
      assert.equal(typed_config.access_log?.length, 1);
      bootstrap.set([...AT.accessLog, 1], typed_config.access_log[0]);
    }
  }
}

for (const [context, controlPoint] of [
  ["SIDECAR_INBOUND", "ingress"],
  ["SIDECAR_OUTBOUND", "egress"],
] as const) {
  test(`${context}: the sixth request is rejected, and the others are reported when they end`, async (t) => {
    const { agent, envoy } = await limited(t, controlPoint, (bootstrap, address) =>
      merge(bootstrap, patchesFor(context, address)),
    );
    assert.deepEqual(await six(t, envoy), BOUNDED);
    await until("the ends are heard of", async () => {
      const text = await (await fetch(`http://${agent}/metrics`)).text();
      return /^sluice_access_log_records_total\{result="taken"\} 5$/m.test(text);
    });
  });
}

test("an attached policy: the sixth request is rejected, and the others are reported when they end", async (t) => {
  const target: Target = {
    kind: "Gateway",
    namespace: "shop",
    name: "edge",
    section: undefined,
    controlPoint: "gateway/shop/edge",
  };
  const settings = { agents: "sluice-agent.sluice.svc.cluster.local:8080", failOpen: false };
  const { wanted } = attachmentOf(target, ["istio.io/gateway-controller"], [], settings);
  const spec = wanted[0]?.object.spec as { readonly configPatches: readonly Patch[] } | undefined;
  assert.ok(spec);
  for (const { match } of spec.configPatches) assert.equal(match.context, "GATEWAY");
  const { agent, envoy } = await limited(t, limitOf("Gateway", "edge", "shop"), (bootstrap, at) => {
    merge(bootstrap, spec.configPatches);
    // Istio makes a cluster for each port of each Service, that of gRPC by its protocol.
    bootstrap.insert(
      ["static_resources", "clusters"],
      0,
      agentsCluster("outbound|8080||sluice-agent.sluice.svc.cluster.local", at),
    );
  });
  assert.deepEqual(await six(t, envoy), BOUNDED);
  await until("the ends are heard of", async () => {
    const text = await (await fetch(`http://${agent}/metrics`)).text();
    return /^sluice_access_log_records_total\{result="taken"\} 5$/m.test(text);
  });
});
