// A controller whose policies scale objects, beside an API server that the test plays.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decode } from "#wire/protobuf/messages.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { runCommand } from "../../kit/command.ts";
import { accessTo } from "../../kit/kube/fake-api.ts";
import { type FakeScales, fakeScales } from "../../kit/kube/fake-scales.ts";
import { standalone } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

/** Scales `api` to a number, and `web` to the replicas of `api` that run. */
function scaling(replicas: number): string {
  const scaler = (name: string, ports: object) => ({
    auto_scale: {
      pod_scaler: {
        ...ports,
        kubernetes_object_selector: {
          namespace: "shop",
          api_version: "apps/v1",
          kind: "Deployment",
          name,
        },
      },
    },
  });
  const components = [
    scaler("api", {
      in_ports: { replicas: { constant_signal: { value: replicas } } },
      out_ports: { actual_replicas: { signal_name: "A" } },
    }),
    scaler("web", { in_ports: { replicas: { signal_name: "A" } } }),
  ];
  return JSON.stringify({ circuit: { evaluation_interval: "0.1s", components } });
}

async function running(
  t: TestContext,
  cluster: FakeScales,
  files: Record<string, string>,
  enabled = true,
) {
  const own = await standalone(t, {
    policies: files,
    controller: { SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED: String(enabled) },
    variables: accessTo(t, cluster.api),
  });
  const { address } = own;
  const json = async (path: string) => {
    const reply = await fetch(`http://${address}${path}`);
    // biome-ignore lint/suspicious/noExplicitAny: replies of several routes, whose fields a test names
    return (await reply.json()) as any;
  };
  const metric = async (text: string) => {
    const reply = await fetch(`http://${address}/metrics`);
    const lines = (await reply.text()).split("\n");
    return lines.find((line) => line.startsWith(`${text} `))?.slice(text.length + 1);
  };
  return { ...own, json, metric };
}

test("a policy scales an object, and reads its replicas", async (t) => {
  const cluster = await fakeScales(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  cluster.put("deployments", "web", { configured: 9, actual: 9 });
  const { metric, json } = await running(t, cluster, { "p.json": scaling(5) });
  const configured = (name: string) => cluster.configured("deployments", name);
  await until("api is scaled", () => configured("api") === 5);
  await until("web follows what runs", () => configured("web") === 1);
  cluster.put("deployments", "api", { configured: 5, actual: 4 });
  await until("web follows what runs", () => configured("web") === 4);
  assert.equal(await metric('sluice_scaled_objects{state="followed"}'), "2");
  assert.ok(Number(await metric('sluice_scale_attempts_total{result="scaled"}')) >= 3);
  assert.equal(await metric('sluice_dependency_degraded{dependency="auto_scale"}'), "0");
  assert.equal(
    await metric('sluice_policy_warnings{policy_name="p",code="needs_auto_scale"}'),
    undefined,
  );
  assert.deepEqual(Object.keys((await json("/v1/decisions/pod_scaler")).decisions).length, 2);
});

test("what can be scaled is listed by the routes and the command", async (t) => {
  const cluster = await fakeScales(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  const { json, address } = await running(t, cluster, {});
  assert.deepEqual(await json("/v1/autoscale/kubernetes/controlpoints"), {
    auto_scale_kubernetes_control_points: [
      { api_version: "apps/v1", kind: "Deployment", namespace: "shop", name: "api" },
    ],
  });
  const grpc = grpcClient(t, address);
  const own = "aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoints";
  const points = await grpc.unary(`/${own}Service/GetControlPoints`, Buffer.alloc(0));
  assert.deepEqual(
    decode(own, points.message ?? Buffer.alloc(0)).autoScaleKubernetesControlPoints,
    [{ apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "api" }],
  );
  const all = await grpc.unary(
    "/aperture.cmd.v1.Controller/ListAutoScaleControlPoints",
    Buffer.alloc(0),
  );
  assert.match(String(all.message), /apps\/v1.*Deployment.*shop.*api/s);
  const { code, out } = await runCommand(["agents", "--auto-scale", "--controller", address]);
  assert.equal(code, 0);
  assert.deepEqual(
    out
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/ {2,}/)),
    [
      ["API VERSION", "KIND", "NAMESPACE", "NAME"],
      ["apps/v1", "Deployment", "shop", "api"],
    ],
  );
});

test("without the key nothing is scaled, and status, log and metric say so", async (t) => {
  const cluster = await fakeScales(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  const { metric, json, address } = await running(t, cluster, { "p.json": scaling(5) }, false);
  await until("it is counted", async () => {
    return (
      (await metric('sluice_policy_warnings{policy_name="p",code="needs_auto_scale"}')) === "2"
    );
  });
  const status = JSON.stringify(await json("/v1/status/system/policies"));
  assert.match(
    status,
    /the replicas of Deployment shop\/api change only where auto_scale\.kubernetes\.enabled/,
  );
  assert.deepEqual(cluster.api.asked, []);
  const { out } = await runCommand(["agents", "--auto-scale", "--controller", address]);
  assert.match(out, /^no objects that policies could scale: auto_scale\.kubernetes\.enabled/);
});

test("an autoscaler of the same object, and an object that is not there, are warnings that end", async (t) => {
  const cluster = await fakeScales(t);
  cluster.put("deployments", "api", { configured: 1, actual: 1 });
  const target = { apiVersion: "apps/v1", kind: "Deployment", name: "api" };
  cluster.autoscale("hpa", target);
  const { metric } = await running(t, cluster, { "p.json": scaling(5) });
  const counts = (code: string) => metric(`sluice_policy_warnings{policy_name="p",code="${code}"}`);
  await until("both are counted", async () => {
    return (await counts("other_autoscaler")) === "1" && (await counts("not_scaled")) === "1";
  });
  cluster.remove("horizontalpodautoscalers", "hpa");
  cluster.put("deployments", "web", { configured: 1, actual: 1 });
  await until("both have ended", async () => {
    return (
      (await counts("other_autoscaler")) === undefined && (await counts("not_scaled")) === undefined
    );
  });
});

test("without an API server, the fault names the keys that ask for one", async (t) => {
  const scales = { SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED: "true" };
  const both = { ...scales, SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true" };
  for (const [controller, words] of [
    [scales, /^auto_scale\.kubernetes\.enabled: wanted a Kubernetes API server: /],
    [both, /^auto_scale\.kubernetes\.enabled and policies\.cr_watcher\.enabled: wanted a /],
  ] as const)
    await assert.rejects(standalone(t, { policies: {}, controller }), (fault: Error) => {
      assert.match(fault.message, words);
      return true;
    });
});
