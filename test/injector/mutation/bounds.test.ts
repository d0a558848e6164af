// Quotas and ranges of a namespace that sidecars do not keep are warnings, each with the annotation that helps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { InjectionSettings, ResourceBound } from "#injector/settings.ts";
import { ResourceBounds } from "../../../src/injector/cluster/resource-bounds.ts";
import { clientOf, fakeApi } from "../../kit/kube/fake-api.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { realClock } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import { injected, podWith, SETTINGS } from "../kit.ts";

const RESOURCES = {
  cpuRequest: "100m",
  cpuLimit: "2",
  memoryRequest: "128Mi",
  memoryLimit: "512Mi",
};
const WITH_LIMITS: InjectionSettings = {
  ...SETTINGS,
  sidecar: { ...SETTINGS.sidecar, resources: RESOURCES },
  envoy: { ...SETTINGS.envoy, resources: RESOURCES },
};

const quota = (hard: Readonly<Record<string, string>>): ResourceBound => ({
  kind: "ResourceQuota",
  name: "team",
  hard,
});
const range = (fields: Partial<Extract<ResourceBound, { kind: "LimitRange" }>>): ResourceBound => ({
  kind: "LimitRange",
  name: "sizes",
  max: {},
  min: {},
  defaults: {},
  defaultRequests: {},
  ...fields,
});

function warned(
  bounds: readonly ResourceBound[],
  {
    settings = WITH_LIMITS,
    annotations = {},
  }: {
    readonly settings?: InjectionSettings;
    readonly annotations?: Readonly<Record<string, string>>;
  } = {},
): readonly string[] {
  return injected(podWith({ annotations }), { settings, bounds }).warnings;
}

test("the default limits of the charts pass a quota that demands some", () => {
  const demanding = {
    "limits.cpu": "10",
    "limits.memory": "10Gi",
    "requests.cpu": "10",
    memory: "9G",
  };
  assert.deepEqual(warned([quota(demanding)]), []);
});

test("a quota that demands a limit, which a sidecar lacks", () => {
  const none = { settings: SETTINGS };
  const demands = quota({ "limits.cpu": "10" });
  assert.deepEqual(warned([demands], none), [
    "ResourceQuota team wants limits.cpu of each container, and sluice-agent has none: set the annotation sluice/resources-cpu-limit",
  ]);
  const annotations = { "sluice/envoy-inject": "true", "sluice/resources-cpu-limit": "1" };
  assert.deepEqual(
    warned([demands], { ...none, annotations }).filter((each) => each.startsWith("Resource")),
    [
      "ResourceQuota team wants limits.cpu of each container, and sluice-envoy has none: set the annotation sluice/envoy-resources-cpu-limit",
    ],
  );
  // The API server fills in a default after the webhook.
  assert.deepEqual(warned([demands, range({ defaults: { cpu: "1" } })], none), []);
  assert.deepEqual(warned([demands, range({ max: { cpu: "1" } })], none), []);
  // A default request is no limit.
  assert.equal(warned([demands, range({ defaultRequests: { cpu: "1" } })], none).length, 1);
});

test("a quota that demands a request, which a sidecar lacks", () => {
  const resources = { ...SETTINGS.sidecar.resources, cpuRequest: "" };
  const settings = { ...SETTINGS, sidecar: { ...SETTINGS.sidecar, resources } };
  const none = { settings };
  for (const key of ["requests.cpu", "cpu"]) {
    const demands = quota({ [key]: "10" });
    assert.deepEqual(warned([demands], none), [
      `ResourceQuota team wants ${key} of each container, and sluice-agent has none: set the annotation sluice/resources-cpu-request`,
    ]);
    // The API server fills in any of these after the webhook.
    for (const kind of ["defaultRequests", "defaults", "max", "min"])
      assert.deepEqual(warned([demands, range({ [kind]: { cpu: "1" } })], none), []);
    assert.equal(warned([demands, range({ defaultRequests: { memory: "1Gi" } })], none).length, 1);
  }
});

test("a quota that is smaller than one sidecar", () => {
  assert.deepEqual(warned([quota({ "limits.memory": "256Mi", pods: "4" })]), [
    "ResourceQuota team allows 256Mi of limits.memory to all pods together, and sluice-agent alone has 512Mi: set the annotation sluice/resources-memory-limit",
  ]);
});

test("a sidecar without a request counts with its limit, as Kubernetes has it", () => {
  const resources = { ...RESOURCES, cpuRequest: "" };
  const settings = { ...SETTINGS, sidecar: { ...SETTINGS.sidecar, resources } };
  assert.deepEqual(warned([quota({ "requests.cpu": "10" })], { settings }), []);
  assert.deepEqual(warned([quota({ "requests.cpu": "1" })], { settings }), [
    "ResourceQuota team allows 1 of requests.cpu to all pods together, and sluice-agent alone has 2: set the annotation sluice/resources-cpu-request",
  ]);
});

test("a range that a sidecar does not keep", () => {
  const most = range({ max: { memory: "256Mi" } });
  assert.deepEqual(warned([most]), [
    "LimitRange sizes allows a container 256Mi of memory, and sluice-agent is limited to 512Mi: set the annotation sluice/resources-memory-limit",
  ]);
  const annotations = { "sluice/resources-memory-limit": "256Mi" };
  assert.deepEqual(warned([most], { annotations }), []);
  assert.deepEqual(warned([range({ max: { cpu: "50m" } })], { settings: SETTINGS }), [
    "LimitRange sizes allows a container 50m of cpu, and sluice-agent requests 100m: set the annotation sluice/resources-cpu-request",
  ]);
  assert.deepEqual(warned([range({ min: { cpu: "200m" } })]), [
    "LimitRange sizes wants a container to request 200m of cpu, and sluice-agent requests 100m: set the annotation sluice/resources-cpu-request",
  ]);
});

test("quotas and ranges of the cluster are followed", async (t) => {
  const api = await fakeApi(t);
  const metadata = { name: "team", namespace: "shop", uid: "u", resourceVersion: "1" };
  const hard = { "limits.cpu": "4" };
  const quotas = [
    { metadata, spec: { hard } },
    { metadata: { ...metadata, name: "jobs" }, spec: { hard, scopes: ["Terminating"] } },
    { metadata: { ...metadata, namespace: "other" }, spec: { hard: { pods: 3 } } },
  ];
  const container = {
    type: "Container",
    max: { cpu: "1" },
    default: { cpu: "500m" },
    defaultRequest: { cpu: "50m" },
  };
  const ranges = [
    {
      metadata: { ...metadata, name: "sizes" },
      spec: { limits: [container, { type: "Pod", max: { cpu: "2" } }] },
    },
  ];
  api.before = ({ path, query, reply }) => {
    if (query.get("watch") === "true") return false;
    const items = path === "/api/v1/resourcequotas" ? quotas : ranges;
    reply(200, { metadata: { resourceVersion: "1" }, items });
    return true;
  };
  const bounds = new ResourceBounds({
    client: clientOf(t, api),
    clock: realClock,
    chance: seededChance(1),
    log: memoryLog(),
  });
  bounds.follow();
  t.after(() => bounds.close());
  const sizes = { kind: "LimitRange", name: "sizes", max: { cpu: "1" }, min: {} } as const;
  await until("both are known", () => bounds.of("shop").length === 2);
  const byKind = [...bounds.of("shop")].sort((one, two) => (one.kind < two.kind ? -1 : 1));
  assert.deepEqual(byKind, [
    { ...sizes, defaults: { cpu: "500m" }, defaultRequests: { cpu: "50m" } },
    { kind: "ResourceQuota", name: "team", hard },
  ]);
  assert.deepEqual(bounds.of("other"), [
    { kind: "ResourceQuota", name: "team", hard: { pods: "3" } },
  ]);
  assert.deepEqual(bounds.of("none"), []);
  await until("both are watched", () => api.watches.length === 2);
  const version = { ...metadata, resourceVersion: "2" };
  for (const watch of api.watches) watch.send("DELETED", { metadata: version });
  await until("the quota is gone", () => bounds.of("shop").length === 1);
});

test("without the right to read them the log says what is missing, once", async (t) => {
  const api = await fakeApi(t);
  api.before = ({ path, reply }) => {
    reply(path.endsWith("resourcequotas") ? 403 : 503, { message: "no" });
    return true;
  };
  const log = memoryLog();
  const options = { client: clientOf(t, api), clock: realClock, chance: seededChance(1), log };
  const bounds = new ResourceBounds(options);
  bounds.follow();
  t.after(() => bounds.close());
  const asked = (path: string) => api.asked.filter((each) => each.path.endsWith(path)).length;
  await until("each is asked for twice", () => asked("quotas") > 1 && asked("ranges") > 1);
  assert.deepEqual(
    log.lines.map(({ message }) => message),
    [
      "cannot read ResourceQuotas or LimitRanges, so there are no warnings about sidecars that exceed them: GET /api/v1/resourcequotas: status 403: no",
    ],
  );
});
