// The objects that the charts render, with as much as there is. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { nameOf } from "#config/read/variables.ts";
import { leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import { chartPath, objectsIn, type Rendered, rendered, type Values } from "../../kit/kube/helm.ts";
import {
  agent,
  controller,
  DISCOVERS,
  EVERYTHING_CONTROLLER,
  EVERYTHING_SIDECAR,
  environment,
  envOf,
  everything,
  kinds,
  merged,
  needed,
  only,
  podOf,
  treeOf,
  WATCHES,
  workloads,
} from "../../kit/kube/rendering.ts";

test("ports have names that Services, monitors, network policies and probes use", async () => {
  for (const objects of await everything()) {
    for (const service of objects.filter(({ kind }) => kind === "Service")) {
      const matching = workloads(objects).filter(({ spec }) =>
        Object.entries(service["spec"].selector).every(
          ([key, value]) => spec.template?.metadata.labels[key] === value,
        ),
      );
      assert.equal(matching.length, 1, service.metadata.name);
      const { ports } = podOf(matching[0] as Rendered).containers[0];
      for (const { targetPort } of service["spec"].ports)
        assert.ok(
          ports.some(({ name }: { name: string }) => name === targetPort),
          `${service.metadata.name} ${targetPort}`,
        );
    }
    for (const policy of objects.filter(({ kind }) => kind === "NetworkPolicy")) {
      const { matchLabels } = policy["spec"].podSelector;
      const [pod] = workloads(objects).filter(({ spec }) =>
        Object.entries(matchLabels).every(
          ([key, value]) => spec.template?.metadata.labels[key] === value,
        ),
      );
      assert.ok(pod, policy.metadata.name);
      const names = podOf(pod).containers[0].ports.map(({ name }: { name: string }) => name);
      for (const { ports } of policy["spec"].ingress)
        for (const { port } of ports)
          assert.ok(names.includes(port), `${policy.metadata.name} ${port}`);
    }
  }
});

test("probes ask for routes that Sluice has", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/routes.md"), "utf8");
  let asked = 0;
  for (const each of (await everything()).flatMap(workloads)) {
    const [{ image, startupProbe, readinessProbe, livenessProbe, ports }] = podOf(each).containers;
    if (!image.startsWith("sluice:")) continue;
    // A process that waits for etcd is alive and not ready; it must not be started again for that.
    if (startupProbe?.httpGet !== undefined)
      assert.match(startupProbe.httpGet.path, /liveness$/, each.metadata.name);
    for (const probe of [startupProbe, readinessProbe, livenessProbe]) {
      if (probe === undefined) continue;
      asked++;
      const { port } = probe.httpGet ?? probe.tcpSocket;
      const names = ports.map(({ name }: { name: string }) => name);
      assert.ok(names.includes(port), each.metadata.name);
      if (probe.httpGet !== undefined)
        assert.ok(page.includes(`| GET | \`${probe.httpGet.path}\` |`), probe.httpGet.path);
    }
  }
  assert.ok(asked > 10);
});

test("the injector's rights on Secrets are limited where the cluster can do that, and only where it has some", async () => {
  const user = {
    config: { etcd: { username: "agent" } },
    secrets: { etcd: { password: { name: "users", key: "agent" } } },
  };
  const flags = ["--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"];
  const policies = async (more: object, of: readonly string[] = flags) =>
    (await objectsIn("sluice-agent", merged(needed("agent"), { agent: more }), of)).filter(
      ({ kind }) => kind.startsWith("ValidatingAdmissionPolicy"),
    );
  assert.equal((await policies(user)).length, 2, "a policy and its binding");
  assert.equal((await policies(user, [])).length, 0, "an older cluster");
  assert.equal((await policies({})).length, 0, "no Secrets");
});

test("pods stand where the values say", async () => {
  const placed = {
    priorityClassName: "high",
    nodeSelector: { pool: "edge" },
    tolerations: [{ key: "edge", operator: "Exists" }],
    affinity: { nodeAffinity: {} },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" },
    ],
  };
  const { nodeSelector, tolerations, affinity, priorityClassName } = placed;
  const installationMode = "KUBERNETES_DEPLOYMENT";
  for (const objects of [
    await agent({ installationMode, agent: placed }),
    await controller({ controller: placed, injector: { enabled: true, ...placed } }),
  ])
    for (const deployment of objects.filter(({ kind }) => kind === "Deployment")) {
      const pod = podOf(deployment);
      const { name } = deployment.metadata;
      assert.equal(pod.priorityClassName, priorityClassName, name);
      assert.deepEqual(pod.nodeSelector, nodeSelector, name);
      assert.deepEqual(pod.tolerations, tolerations, name);
      assert.deepEqual(pod.affinity, affinity, name);
      const [spread] = pod.topologySpreadConstraints;
      assert.equal(spread.topologyKey, "zone", name);
    }
});

test("workers and trust of an injected Envoy are values of the chart", async () => {
  const envoy = async (sidecars: object) => {
    const { data } = only(await agent({ sidecars }), "ConfigMap");
    return [data.SVC_INJECTOR_ENVOY_CONCURRENCY, data.SVC_INJECTOR_ENVOY_CLIENT_BAGGAGE];
  };
  assert.deepEqual(await envoy({}), ["2", "ignore"]);
  const set = { envoy: { concurrency: 4, client_baggage: "believe" } };
  assert.deepEqual(await envoy(set), ["4", "believe"]);
});

test("requests and limits of both sidecars are values of the chart", async () => {
  const quantities = async (values: Values) => {
    const { data } = only(await agent(values), "ConfigMap");
    return Object.fromEntries(
      Object.entries(data).flatMap(([name, value]) => {
        const [, quantity] = /^SVC_INJECTOR_(.*_RESOURCES_.*)$/.exec(name) ?? [];
        return quantity === undefined ? [] : [[quantity, value]];
      }),
    );
  };
  const ours = await quantities({});
  assert.equal(Object.keys(ours).length, 8);
  // A quota of limits.cpu refuses a pod with a container that has none.
  for (const [name, value] of Object.entries(ours)) assert.notEqual(value, "", name);
  const resources = (cpu: string | null) => ({
    requests: { cpu: "50m", memory: "32Mi" },
    limits: { cpu, memory: "256Mi" },
  });
  const both = { agent: { resources: resources("1") } };
  const set = await quantities({ ...both, sidecars: { envoy: { resources: resources(null) } } });
  const said = (part: string, cpu: string) => ({
    [`${part}_RESOURCES_CPU_REQUEST`]: "50m",
    [`${part}_RESOURCES_CPU_LIMIT`]: cpu,
    [`${part}_RESOURCES_MEMORY_REQUEST`]: "32Mi",
    [`${part}_RESOURCES_MEMORY_LIMIT`]: "256Mi",
  });
  assert.deepEqual(set, { ...said("SIDECAR", "1"), ...said("ENVOY", "") });
  await assert.rejects(
    agent(treeOf("agent.resources.limits", { "ephemeral-storage": "1Gi" })),
    /agent\.resources\.limits: wanted cpu and memory, .*got ephemeral-storage/,
  );
});

test("all pods fit the level restricted, and only those that use the API have a token", async () => {
  for (const objects of await everything())
    for (const each of workloads(objects)) {
      const pod = podOf(each);
      const { name } = each.metadata;
      assert.equal(pod.securityContext.runAsNonRoot, true, name);
      assert.ok(pod.securityContext.runAsUser > 0, name);
      assert.deepEqual(pod.securityContext.seccompProfile, { type: "RuntimeDefault" }, name);
      // Controllers use it where policies are resources, and processes that discover services do.
      const uses = [WATCHES, ...DISCOVERS];
      const watches = envOf(each).some((one) => uses.includes(one.name) && one.value === "true");
      const usesApi = name === "sluice-injector" || watches;
      assert.equal(pod.automountServiceAccountToken, usesApi, name);
      for (const { securityContext, resources } of pod.containers) {
        assert.equal(securityContext.readOnlyRootFilesystem, true, name);
        assert.equal(securityContext.allowPrivilegeEscalation, false, name);
        assert.deepEqual(securityContext.capabilities, { drop: ["ALL"] }, name);
        assert.ok(resources.requests.memory && resources.limits.memory, name);
      }
    }
});

test("no ConfigMap holds a secret, and secrets are only referred to", async () => {
  const secret = ["agent", "controller"].flatMap((process) =>
    leaves(PROCESSES[process as ProcessName].table).flatMap(({ path, row }) =>
      row.secret === true ? [nameOf(process as ProcessName, path, "leaf")] : [],
    ),
  );
  assert.ok(secret.length > 10);
  let maps = 0;
  for (const objects of await everything()) {
    for (const { data } of objects.filter(({ kind }) => kind === "ConfigMap")) {
      maps++;
      for (const name of secret) assert.equal(data?.[name], undefined, name);
    }
    for (const each of workloads(objects))
      for (const { name, value } of envOf(each))
        if (secret.includes(name)) assert.equal(value, undefined, name);
  }
  assert.ok(maps > 5);
  const sidecar = only(await agent(EVERYTHING_SIDECAR), "ConfigMap", "sluice-sidecars");
  assert.equal(sidecar["data"].SVC_INJECTOR_SIDECAR_SECRETS, '["etcd.password=etcd/password"]');
  assert.equal(sidecar["data"].SVC_INJECTOR_SIDECAR_CERTIFICATES, "tls");
});

test("sidecars get one Secret with certificates, and the injector the right to copy what they use", async () => {
  const objects = await agent(EVERYTHING_SIDECAR);
  const role = only(objects, "ClusterRole");
  assert.deepEqual(role["rules"], [
    { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
    {
      apiGroups: [""],
      resources: ["secrets"],
      resourceNames: ["etcd", "tls"],
      verbs: ["get", "update", "delete"],
    },
  ]);
  // The injector reads the texts as they are, and doubles the sign where it writes them into a pod.
  const odd = await agent({
    agent: { config: { log: { writers: [{ file: "/tmp/$(POD_IP)" }] } } },
  });
  const { data } = only(odd, "ConfigMap");
  assert.equal(data.SVC_AGENT_LOG_WRITERS, '[{"file":"/tmp/$(POD_IP)"}]');
  const two = { tls: { etcd: { secretName: "one" }, redis: { secretName: "two" } } };
  await assert.rejects(agent(two), /tls: sidecars mount one Secret.*one, two/);
  assert.deepEqual(kinds(await agent()), ["ConfigMap"], "no secrets, no rights");
});

test("pull secrets of the image reach injected pods, and the injector may copy them", async () => {
  const objects = await agent({ image: { pullSecrets: ["registry"] } });
  const { data } = only(objects, "ConfigMap");
  assert.equal(data.SVC_INJECTOR_SIDECAR_PULL_SECRETS, '["registry"]');
  const [, named] = only(objects, "ClusterRole")["rules"];
  assert.deepEqual(named.resourceNames, ["registry"]);
  const global = { global: { sluice: { image: { pullSecrets: ["of-all"] } } } };
  const ofAll = only(await agent(global), "ConfigMap");
  assert.equal(ofAll["data"].SVC_INJECTOR_SIDECAR_PULL_SECRETS, '["of-all"]');
});

test("pods of agents have the address that they announce", async () => {
  for (const installationMode of ["KUBERNETES_DAEMONSET", "KUBERNETES_DEPLOYMENT"]) {
    const [workload] = workloads(await agent({ installationMode }));
    const [first] = envOf(workload as Rendered);
    assert.equal(first?.name, "POD_IP", "a variable can only name those before it");
    assert.deepEqual(first?.valueFrom, { fieldRef: { fieldPath: "status.podIP" } });
  }
});

test("a second rendering is the same", async () => {
  const both = () =>
    Promise.all([
      rendered("sluice"),
      rendered("sluice-agent", merged(needed("agent"), EVERYTHING_SIDECAR)),
      rendered("sluice-controller", merged(needed("controller"), EVERYTHING_CONTROLLER)),
    ]);
  assert.deepEqual(await both(), await both());
});

test("the umbrella chart wires its parts together, and production leaves two of them out", async () => {
  const objects = await objectsIn("sluice");
  const services = objects
    .filter(({ kind }) => kind === "Service")
    .map(({ metadata }) => metadata.name);
  const own = environment(envOf(only(objects, "Deployment", "sluice-controller")));
  const { data } = only(objects, "ConfigMap", "sluice-sidecars");
  for (const [endpoints, address] of [
    [own["SVC_CONTROLLER_ETCD_ENDPOINTS"], own["SVC_CONTROLLER_PROMETHEUS_ADDRESS"]],
    [data.SVC_AGENT_ETCD_ENDPOINTS, data.SVC_AGENT_PROMETHEUS_ADDRESS],
  ]) {
    assert.equal(endpoints, '["http://sluice-etcd.sluice.svc:2379"]');
    assert.equal(address, "http://sluice-prometheus.sluice.svc:9090");
  }
  assert.ok(services.includes("sluice-etcd") && services.includes("sluice-prometheus"));
  const injector = environment(envOf(only(objects, "Deployment", "sluice-injector")));
  assert.equal(injector["SVC_INJECTOR_SIDECAR_CONFIG_MAP"], "sluice-sidecars");
  const values = { "sluice-agent": needed("agent"), "sluice-controller": needed("controller") };
  const production = await objectsIn("sluice", values, [
    "--values",
    chartPath("sluice", "values-production.yaml"),
  ]);
  const names = production.map(({ metadata }) => metadata.name);
  assert.ok(!names.some((name) => /etcd|prometheus/.test(name)), names.join());
  assert.equal(only(production, "Deployment", "sluice-controller")["spec"].replicas, 2);
  await assert.rejects(
    objectsIn("sluice", { etcd: { enabled: false } }),
    /wanted global\.sluice\.etcd\.enabled/,
  );
  const image = {
    global: {
      sluice: { image: { registry: "registry.example.com", digest: `sha256:${"0".repeat(64)}` } },
    },
  };
  for (const each of workloads(await objectsIn("sluice", image)).filter(
    ({ metadata }) => !/etcd|prometheus/.test(metadata.name),
  ))
    assert.equal(
      podOf(each).containers[0].image,
      `registry.example.com/sluice@sha256:${"0".repeat(64)}`,
    );
});

test("webhook and certificate are left to their owner", async () => {
  const objects = await controller();
  const webhook = only(objects, "MutatingWebhookConfiguration");
  assert.equal(webhook["webhooks"].length, 3);
  for (const { clientConfig, namespaceSelector } of webhook["webhooks"]) {
    assert.equal(clientConfig.caBundle, undefined);
    const ignored = namespaceSelector.matchExpressions.find(
      ({ operator }: { operator: string }) => operator === "NotIn",
    );
    assert.ok(ignored.values.includes("sluice") && ignored.values.includes("kube-system"));
  }
  assert.equal(only(objects, "Secret", "sluice-injector-tls")["data"], undefined);
  const managed = await controller({ injector: { certManager: { enabled: true } } });
  assert.ok(!managed.some(({ kind }) => kind === "Secret"));
  assert.equal(
    only(managed, "MutatingWebhookConfiguration").metadata.annotations?.[
      "cert-manager.io/inject-ca-from"
    ],
    "sluice/sluice-injector-certificate",
  );
  const rules = (of: readonly Rendered[], kind: string): readonly string[] =>
    only(of, kind, "sluice-injector")["rules"].map(
      ({ resources, verbs }: { resources: string[]; verbs: string[] }) =>
        `${verbs.join(" ")}: ${resources.join()}`,
    );
  assert.deepEqual(rules(managed, "ClusterRole").slice(-1), ["get: mutatingwebhookconfigurations"]);
  assert.deepEqual(rules(objects, "ClusterRole").slice(-1), [
    "get patch: mutatingwebhookconfigurations",
  ]);
  assert.deepEqual(rules(managed, "Role"), ["list watch: configmaps"]);
  assert.deepEqual(rules(objects, "Role"), ["list watch: configmaps", "get patch: secrets"]);
});

test("controllers get rights where they scale, in all namespaces or in those that are named", async () => {
  const none = { injector: { enabled: false } };
  const isRole = ({ kind }: Rendered) => /Role/.test(kind);
  assert.ok(!(await controller(none)).some(isRole));
  const own = {
    autoScale: { enabled: true, resources: ["shops.example.com", "replicationcontrollers"] },
  };
  const everywhere = await controller(none, own);
  const rules = only(everywhere, "ClusterRole")["rules"];
  const of = (group: string, resource: string, ...verbs: readonly string[]) => ({
    apiGroups: [group],
    resources: [resource],
    verbs,
  });
  assert.deepEqual(rules, [
    of("example.com", "shops", "list", "watch"),
    of("example.com", "shops/scale", "get", "update"),
    of("", "replicationcontrollers", "list", "watch"),
    of("", "replicationcontrollers/scale", "get", "update"),
    of("autoscaling", "horizontalpodautoscalers", "list", "watch"),
    of("events.k8s.io", "events", "create"),
  ]);
  assert.equal(podOf(only(everywhere, "Deployment")).automountServiceAccountToken, true);
  const named = await controller(none, own, { autoScale: { namespaces: ["shop", "stock"] } });
  const roles = named.filter(({ kind }) => kind === "Role");
  assert.deepEqual(
    roles.map(({ metadata }) => metadata.namespace),
    ["shop", "stock"],
  );
  for (const role of roles) assert.deepEqual(role["rules"], rules);
  assert.ok(!named.some(({ kind }) => kind.startsWith("ClusterRole")));
  const bindings = named.filter(({ kind }) => kind === "RoleBinding");
  assert.equal(bindings.length, 2);
  const [subject] = bindings[0]?.["subjects"] ?? [];
  assert.equal(subject.name, only(named, "ServiceAccount").metadata.name);
  const key = treeOf("controller.config.auto_scale.kubernetes.enabled", true);
  assert.equal(only(await controller(none, key), "ClusterRole")["rules"].length, 8);
  for (const resource of ["Deployment", "deployments", "pods", "deployments."])
    await assert.rejects(controller(own, { autoScale: { resources: [resource] } }), /resources/);
  for (const namespace of ["Shop", "shop.eu", "-shop", ""])
    await assert.rejects(controller(own, { autoScale: { namespaces: [namespace] } }), /namespaces/);
});

test("controllers get rights where they attach, and gateways a grant where agents are in another namespace", async () => {
  const none = { injector: { enabled: false } };
  const own = {
    policies: { crWatcher: { enabled: true } },
    gatewayApi: { enabled: true, failOpen: true },
  };
  const objects = await controller(none, own);
  const verbs = ["list", "watch", "create", "patch", "delete"];
  assert.deepEqual(only(objects, "ClusterRole")["rules"], [
    {
      apiGroups: ["gateway.networking.k8s.io"],
      resources: ["gatewayclasses"],
      verbs: ["list", "watch"],
    },
  ]);
  const role = objects.find(
    ({ kind, metadata }) => kind === "Role" && metadata.name.endsWith("-gateways"),
  );
  assert.deepEqual(
    role?.["rules"].map((rule: { resources: string[]; verbs: string[] }) => [
      rule.resources,
      rule.verbs,
    ]),
    [
      [
        ["gateways", "httproutes"],
        ["list", "watch"],
      ],
      [["securitypolicies"], verbs],
      [["envoyfilters"], verbs],
    ],
  );
  const names = ["ENABLED", "AGENTS", "FAIL_OPEN"].map(
    (key) => `SVC_CONTROLLER_GATEWAY_API_${key}`,
  );
  const entries = envOf(only(objects, "Deployment"));
  const values = names.map((name) => entries.find((entry) => entry.name === name)?.value);
  const { namespace } = only(objects, "Deployment").metadata;
  assert.deepEqual(values, ["true", `sluice-agent.${namespace}.svc.cluster.local:8080`, "true"]);
  assert.ok(!objects.some(({ kind }) => kind === "ReferenceGrant"));
  const elsewhere = treeOf("gatewayApi.agents", "ask.agents.svc.cluster.local:8080");
  const grant = only(await controller(none, own, elsewhere), "ReferenceGrant");
  assert.equal(grant.metadata.namespace, "agents");
  assert.equal(grant["spec"].from[0].namespace, namespace);
  assert.equal(grant["spec"].to[0].name, "ask");
});

test("controllers get rights where policies are resources, and a webhook where they have TLS", async () => {
  const enabled = { policies: { crWatcher: { enabled: true } } };
  const rights = parse(
    readFileSync(chartPath("sluice-controller", "files/policy-rights.yaml"), "utf8"),
  );
  const objects = await controller(enabled, { injector: { enabled: false } });
  assert.deepEqual(only(objects, "Role")["rules"], rights);
  assert.ok(!objects.some(({ kind }) => kind === "ValidatingWebhookConfiguration"));
  assert.ok(
    !(await controller({ injector: { enabled: false } })).some(({ kind }) => kind === "Role"),
  );
  const key = treeOf("controller.config.policies.cr_watcher.enabled", true);
  assert.ok(only(await controller(key, { injector: { enabled: false } }), "Role"));
  const webhook = { policies: { crWatcher: { webhook: { enabled: true, caBundle: "Zm9v" } } } };
  await assert.rejects(
    controller(enabled, webhook),
    /webhook\.enabled: wanted .*tls\.server\.secretName/,
  );
  const whole = await controller(enabled, webhook, { tls: { server: { secretName: "tls" } } });
  const [{ clientConfig }] = only(whole, "ValidatingWebhookConfiguration")["webhooks"];
  assert.equal(clientConfig.service.path, "/validate/policy");
  const page = readFileSync(join(import.meta.dirname, "../../../docs/routes.md"), "utf8");
  assert.ok(page.includes(`| POST | \`${clientConfig.service.path}\` |`));
});

test("each namespace of a team gets the controllers' rights, a quota and the webhook", async () => {
  const crWatcher = { enabled: true, webhook: { enabled: true, caBundle: "Zm9v" } };
  const policies = { crWatcher, namespaces: ["pay", "shop"], namespaceQuota: 7 };
  const tls = { server: { secretName: "tls" } };
  const objects = await controller({ policies, tls, injector: { enabled: false } });
  const of = (kind: string) => objects.filter((each) => each.kind === kind);
  const [own, ...teams] = of("Role");
  assert.deepEqual(
    teams.map(({ metadata }) => metadata.namespace),
    ["pay", "shop"],
  );
  for (const role of teams) assert.deepEqual(role["rules"], own?.["rules"]);
  const namespace = own?.metadata.namespace;
  assert.deepEqual(
    of("RoleBinding").map((each) => [each.metadata.namespace, each["subjects"][0].namespace]),
    [namespace, "pay", "shop"].map((each) => [each, namespace]),
  );
  assert.deepEqual(
    of("ResourceQuota").map((each) => [each.metadata.namespace, each["spec"].hard]),
    ["pay", "shop"].map((each) => [each, { "count/policies.fluxninja.com": "7" }]),
  );
  assert.ok(!of("ClusterRole").some((each) => JSON.stringify(each).includes("fluxninja.com")));
  const [{ namespaceSelector }] = only(objects, "ValidatingWebhookConfiguration")["webhooks"];
  const [{ values }] = namespaceSelector.matchExpressions;
  assert.deepEqual(values, [namespace, "pay", "shop"]);
  const text = JSON.stringify(only(objects, "Deployment"));
  assert.match(text, /"SVC_CONTROLLER_POLICIES_NAMESPACES","value":"pay,shop"/);
  assert.match(text, /"SVC_CONTROLLER_POLICIES_NAMESPACE_QUOTA","value":"7"/);
});

test("namespaces of teams that would have no effect are refused", async () => {
  const watches = { policies: { crWatcher: { enabled: true } } };
  for (const [values, message] of [
    [{ policies: { namespaces: ["pay"] } }, /wanted policies\.crWatcher\.enabled too/],
    [merged(watches, { policies: { namespaceQuota: 7 } }), /wanted policies\.namespaces too/],
    [merged(watches, { policies: { namespaces: ["Pay"] } }), /namespaces/],
    [
      merged(watches, { policies: { namespaces: ["sluice"] } }),
      /wanted namespaces beside that of the controllers, .*got sluice/,
    ],
    [
      merged(watches, treeOf("controller.config.policies.namespaces", ["pay"])),
      /policies\.namespaces: wanted the value policies\.namespaces instead/,
    ],
  ] as const)
    await assert.rejects(controller(values), message);
});

test("agents of a DaemonSet and controllers of sidecars may list and watch what discovery reads, and no others", async () => {
  const rules = [
    { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
    { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] },
  ];
  const discovery = (objects: readonly Rendered[]) =>
    objects.filter(({ metadata }) => metadata.name.endsWith("-discovery"));
  const assertDiscovers = (objects: readonly Rendered[], variable: string, isOn: boolean) => {
    const [role, binding, ...others] = discovery(objects);
    const [workload] = workloads(objects).filter(({ metadata }) =>
      /(?:agent|controller)$/.test(metadata.name),
    );
    assert.ok(workload);
    const { automountServiceAccountToken, serviceAccountName } = podOf(workload);
    const env = environment(envOf(workload));
    assert.deepEqual([automountServiceAccountToken, env[variable] === "true"], [isOn, isOn]);
    assert.equal(role !== undefined, isOn);
    if (!isOn) return;
    assert.deepEqual(role?.["rules"], rules);
    assert.equal(binding?.["roleRef"].name, role?.metadata.name);
    assert.equal(binding?.["subjects"][0].name, serviceAccountName);
    assert.deepEqual(others, []);
  };
  const [ofAgent = "", ofController = ""] = DISCOVERS;
  const mode = (installationMode: string) => ({ installationMode });
  const key = (process: string, to: unknown) =>
    treeOf(`${process}.config.service_discovery.kubernetes`, to);
  const [on, off] = [{ enabled: true }, { enabled: false }];
  const daemonSet = mode("KUBERNETES_DAEMONSET");
  const deployment = mode("KUBERNETES_DEPLOYMENT");
  assertDiscovers(await agent(daemonSet), ofAgent, true);
  assertDiscovers(await agent(daemonSet, key("agent", off)), ofAgent, false);
  assertDiscovers(await agent(deployment), ofAgent, false);
  assertDiscovers(await agent(deployment, key("agent", on)), ofAgent, true);
  const account = treeOf("serviceAccount.name", "own");
  assertDiscovers(await agent(daemonSet, account), ofAgent, true);
  // Through the controller, an agent needs no right.
  const through = await agent(daemonSet, key("agent", { source: "controller" }));
  assert.deepEqual(discovery(through), []);
  assert.equal(podOf(only(through, "DaemonSet")).automountServiceAccountToken, false);
  const { data } = only(await agent(), "ConfigMap");
  assert.equal(data[ofAgent], undefined, "sidecars discover unless the values say otherwise");
  const silent = only(await agent(key("agent", off)), "ConfigMap");
  assert.equal(silent["data"][ofAgent], "false");

  const alone = treeOf("injector.enabled", false);
  assertDiscovers(await controller(), ofController, true);
  assertDiscovers(await controller(key("controller", off)), ofController, false);
  assertDiscovers(await controller(alone), ofController, false);
  assertDiscovers(await controller(alone, key("controller", on)), ofController, true);
});
