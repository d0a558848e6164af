// The charts as Helm renders them: in each mode, with every configuration, and what they refuse. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { nameOf } from "#config/read/variables.ts";
import type { LeafRow } from "#config/table/row.ts";
import { validateText } from "#config/table/value.ts";
import { leaves, PROCESSES, type ProcessName } from "#config/tree.ts";
import {
  type Chart,
  chartPath,
  helm,
  objectsIn,
  type Rendered,
  rendered,
  type Values,
} from "../../kit/kube/helm.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { goodSamples } from "../../kit/sluice/config-samples.ts";

const ENDPOINTS = ["https://etcd.example.com:2379"];
const WATCHES = "SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED";
const MODES = ["KUBERNETES_SIDECAR", "KUBERNETES_DAEMONSET", "KUBERNETES_DEPLOYMENT"] as const;

/** `{a: {b: value}}` for the path `a.b`. */
function treeOf(path: string, value: unknown): Values {
  const [first = "", ...rest] = path.split(".");
  return { [first]: rest.length === 0 ? value : treeOf(rest.join("."), value) };
}

function merged(...trees: readonly Values[]): Values {
  const into: Record<string, unknown> = {};
  for (const tree of trees)
    for (const [key, value] of Object.entries(tree)) {
      const before = into[key];
      const both = [before, value].every(
        (each) => each !== null && typeof each === "object" && !Array.isArray(each),
      );
      into[key] = both ? merged(before as Values, value as Values) : value;
    }
  return into;
}

/** Values with which a chart renders: an etcd has to be named. */
const needed = (process: ProcessName) => treeOf(`${process}.config.etcd.endpoints`, ENDPOINTS);
const agent = (...more: readonly Values[]) =>
  objectsIn("sluice-agent", merged(needed("agent"), ...more));
const controller = (...more: readonly Values[]) =>
  objectsIn("sluice-controller", merged(needed("controller"), ...more));

function kinds(objects: readonly Rendered[]): readonly string[] {
  return objects
    .filter(({ metadata }) => metadata.annotations?.["helm.sh/hook"] === undefined)
    .map(({ kind }) => kind);
}

function only(objects: readonly Rendered[], kind: string, name?: string): Rendered {
  const found = objects.filter(
    (each) => each.kind === kind && (name === undefined || each.metadata.name === name),
  );
  assert.equal(found.length, 1, `one ${kind} ${name ?? ""}`);
  return found[0] as Rendered;
}

// biome-ignore lint/suspicious/noExplicitAny: a pod's specification, whose fields a test names
type PodSpec = any;

const podOf = (object: Rendered): PodSpec => object["spec"].template?.spec ?? object["spec"];

/** All objects that are or have pods. */
function workloads(objects: readonly Rendered[]): readonly Rendered[] {
  return objects.filter(({ kind }) =>
    ["Deployment", "DaemonSet", "StatefulSet", "Pod"].includes(kind),
  );
}

interface Entry {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } };
}

function envOf(object: Rendered): readonly Entry[] {
  return podOf(object).containers[0].env ?? [];
}

/** The environment as the kubelet makes it: references to variables are replaced, and secrets read. */
function environment(
  entries: readonly Entry[],
  secret = "a-secret-of-16-signs",
): Readonly<Record<string, string>> {
  const env: Record<string, string> = { POD_IP: "10.1.2.3" };
  for (const { name, value, valueFrom } of entries) {
    if (valueFrom?.secretKeyRef !== undefined) env[name] = secret;
    if (value === undefined) continue;
    env[name] = value.replaceAll(/\$\$\(|\$\((\w+)\)/g, (all, variable: string | undefined) =>
      variable === undefined ? "$(" : (env[variable] ?? all),
    );
  }
  return env;
}

const EVERYTHING_AGENT: Values = {
  networkPolicy: { enabled: true },
  podMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
  tls: Object.fromEntries(
    ["etcd", "prometheus", "redis", "server", "peers", "controller"].map((use) => [
      use,
      { secretName: "tls" },
    ]),
  ),
  agent: {
    priorityClassName: "high",
    config: { counters: { redis: { url: "rediss://redis:6379" } }, etcd: { username: "agent" } },
    secrets: { etcd: { password: { name: "etcd", key: "password" } } },
  },
};

const EVERYTHING_CONTROLLER: Values = {
  networkPolicy: { enabled: true },
  serviceMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
  tls: Object.fromEntries(
    ["etcd", "prometheus", "server"].map((use) => [use, { secretName: "tls" }]),
  ),
  injector: { certManager: { enabled: true } },
  controller: { policies: { "one.yaml": "spec: {}\n" }, policyConfigMaps: ["more"] },
};

test("helm lint finds nothing", async () => {
  const lint = (chart: Chart, values: Values = {}) =>
    helm(["lint", chartPath(chart), "--kube-version", "1.34.1"], { values });
  await lint("sluice");
  await lint("sluice-agent", needed("agent"));
  await lint("sluice-controller", needed("controller"));
});

test("each mode renders what it says", async () => {
  const [sidecar, daemonSet, deployment] = await Promise.all(
    MODES.map((installationMode) => agent({ installationMode })),
  );
  assert.deepEqual(kinds(sidecar ?? []), ["ConfigMap"]);
  assert.deepEqual(kinds(daemonSet ?? []).toSorted(), ["DaemonSet", "Service", "ServiceAccount"]);
  assert.deepEqual(kinds(deployment ?? []).toSorted(), [
    "Deployment",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
  ]);
  assert.equal(only(daemonSet ?? [], "Service")["spec"].internalTrafficPolicy, "Local");
  assert.deepEqual(kinds(await agent()), ["ConfigMap"], "sidecars are the default");
  const modes = [daemonSet, deployment].map(
    (objects) =>
      environment(envOf(workloads(objects ?? [])[0] as Rendered))[
        "SVC_AGENT_CLOUDEXT_INSTALLATION_MODE"
      ],
  );
  assert.deepEqual(modes, ["KUBERNETES_DAEMONSET", undefined]);
  const map = only(sidecar ?? [], "ConfigMap");
  assert.equal(map["data"].SVC_AGENT_CLOUDEXT_INSTALLATION_MODE, "KUBERNETES_SIDECAR");
});

test("values of Aperture's charts choose the mode, or are refused by name", async () => {
  const modeOf = async (...values: readonly Values[]) =>
    kinds(await agent(...values)).find((kind) => /DaemonSet|Deployment|ConfigMap/.test(kind));
  assert.equal(await modeOf({ agent: { namespaceScoped: true } }), "Deployment");
  assert.equal(await modeOf({ agent: { sidecar: { enabled: true } } }), "ConfigMap");
  assert.equal(await modeOf({ agent: { sidecar: { enabled: false } } }), "DaemonSet");
  assert.deepEqual(kinds(await agent({ agent: { create: false } })), []);
  const extension = { create: true, value: "the-key", secretKeyRef: { name: "keys" } };
  const made = await agent({
    installationMode: "KUBERNETES_DAEMONSET",
    agent: { secrets: { fluxNinjaExtension: extension } },
  });
  assert.equal(atob(only(made, "Secret", "keys")["data"].apiKey), "the-key");
  const key = envOf(only(made, "DaemonSet")).find(
    ({ name }) => name === "SVC_AGENT_CLOUDEXT_API_KEY",
  );
  assert.deepEqual(key?.valueFrom?.secretKeyRef, { name: "keys", key: "apiKey" });
  for (const [values, message] of [
    [
      { installationMode: "KUBERNETES_SIDECAR", agent: { namespaceScoped: true } },
      /installationMode: KUBERNETES_SIDECAR contradicts/,
    ],
    [
      { agent: { sidecar: { enableNamespacesByDefault: true } } },
      /enableNamespacesByDefault: .*kubectl label/,
    ],
    [{ operator: { image: {} } }, /operator: there is no operator/],
    [{ agent: { controllerCert: { cmName: "ca" } } }, /agent\.controllerCert: sidecars/],
  ] as const)
    await assert.rejects(agent(values), message);
  await assert.rejects(
    controller({ etcd: { enabled: true } }),
    /etcd\.enabled: .*controller\.config\.etcd\.endpoints/,
  );
  await assert.rejects(
    controller({ controller: { namespaceScoped: true } }),
    /tls\.server\.secretName/,
  );
});

test("without an etcd, a chart says which value to set", async () => {
  await assert.rejects(objectsIn("sluice-agent"), /agent\.config\.etcd\.endpoints: wanted/);
  await assert.rejects(
    objectsIn("sluice-controller"),
    /controller\.config\.etcd\.endpoints: wanted/,
  );
  const production = ["--values", chartPath("sluice", "values-production.yaml")];
  await assert.rejects(objectsIn("sluice", {}, production), /config\.etcd\.endpoints: wanted/);
});

/** Names of variables, and their rows, of the keys that are not secret. */
function plainLeaves(
  process: "agent" | "controller",
): readonly (readonly [path: string, row: LeafRow])[] {
  const secrets: readonly string[] = JSON.parse(
    readFileSync(chartPath(`sluice-${process}`, "files/secrets.json"), "utf8"),
  );
  return leaves(PROCESSES[process].table)
    .filter(({ path }) => !secrets.includes(path))
    .map(({ path, row }) => [path, row] as const);
}

for (const process of ["agent", "controller"] as const) {
  const chart = `sluice-${process}` as const;
  const main = async (...values: readonly Values[]) =>
    process === "agent"
      ? only(await agent({ installationMode: "KUBERNETES_DAEMONSET" }, ...values), "DaemonSet")
      : only(await controller(...values), "Deployment", "sluice-controller");

  test(`${process}.config becomes variables that mean the same`, async () => {
    for (const at of [0, 1]) {
      const samples = plainLeaves(process).map(([path, row]) => ({
        path,
        row,
        sample: goodSamples(row).at(at) ?? goodSamples(row)[0],
      }));
      // The chart needs to know these two: one names a port, the other one has to be there.
      const fixed = treeOf(process, {
        config: {
          server: { listener: { addr: ":8080" } },
          etcd: { endpoints: ENDPOINTS },
          dist_cache:
            process === "agent" ? { bind_addr: ":3320", memberlist_bind_addr: ":3322" } : undefined,
        },
      });
      const values = merged(
        ...samples.map(({ path, sample }) => treeOf(`${process}.config.${path}`, sample?.raw)),
        fixed,
      );
      const env = environment(envOf(await main(values)));
      for (const { path, row, sample } of samples) {
        if (/^(?:server\.listener\.addr|etcd\.endpoints|dist_cache\.)/.test(path)) continue;
        const text = env[nameOf(process, path, "leaf")];
        assert.ok(text !== undefined && sample !== undefined, path);
        if (row.kind === "objects") assert.deepEqual(JSON.parse(text), sample.raw, path);
        else assert.deepEqual(validateText(row, text), { value: sample.value }, path);
      }
    }
  });

  test(`every variable of the ${process} is a setting that it reads`, async () => {
    const everything = process === "agent" ? EVERYTHING_AGENT : EVERYTHING_CONTROLLER;
    const odd = {
      log: { writers: [{ file: "/tmp/$(POD_IP) 'a' \"b\" {{ . }}" }] },
      flow_control: { max_keys: 2_000_000 },
    };
    const values =
      process === "agent"
        ? treeOf("agent.config", odd)
        : treeOf("controller.config", { log: odd.log });
    const env = environment(envOf(await main(everything, values)));
    const { config } = configOf(
      process,
      Object.fromEntries(Object.entries(env).filter(([name]) => name !== "POD_IP")),
    );
    assert.equal(config.log.writers[0]?.file, odd.log.writers[0]?.file);
    assert.deepEqual(config.etcd.endpoints, ENDPOINTS);
    assert.equal(config.server.administration.addr, "127.0.0.1:8081");
    assert.equal(config.server.tls.enabled, true);
    assert.equal(config.etcd.tls.ca_file, "/etc/sluice/tls/etcd/ca.crt");
    if ("flow_control" in config) {
      assert.equal(config.flow_control.max_keys, 2_000_000);
      assert.equal(config.peer_discovery.advertisement_addr, "10.1.2.3:8080");
      assert.equal(config.etcd.password, "a-secret-of-16-signs");
    }
  });

  test(`secrets in ${process}.config are refused, with the value to use instead`, async () => {
    const all: readonly string[] = JSON.parse(
      readFileSync(chartPath(chart, "files/secrets.json"), "utf8"),
    );
    const render = (values: Values) => objectsIn(chart, merged(needed(process), values));
    const texts = all.filter((path) => /(?:password|token|key|dsn)$/.test(path));
    assert.ok(texts.length >= 4);
    for (const path of texts) {
      const refused = render(treeOf(`${process}.config.${path}`, "hunter2-hunter2-hunter2"));
      await assert.rejects(refused, ({ message }: Error) => {
        assert.ok(message.includes(`${process}.config.${path} is a secret`), message);
        assert.ok(message.includes(`${process}.secrets.${path}: {name: NAME, key: KEY}`), message);
        assert.ok(!message.includes("hunter2"), message);
        return true;
      });
    }
    const clients = [{ http_client: { proxy_connect_header: { "x-key": ["hunter2"] } } }];
    await assert.rejects(
      render(treeOf(`${process}.config.alertmanagers.clients`, clients)),
      /secrets\.alertmanagers\.clients: .*as JSON/,
    );
    const address = treeOf(
      `${process}.config.prometheus.address`,
      "http://ann:hunter2@prometheus:9090",
    );
    await assert.rejects(
      render(address),
      /config\.prometheus\.address.*user or password.*secrets\.prometheus\.address/s,
    );
  });

  test(`${chart} refuses wrong keys and values with their path`, async () => {
    for (const [path, value, wanted] of [
      [`${process}.config.etcd.endpoint`, ["http://etcd:2379"], `/${process}/config/etcd`],
      [`${process}.config.server.drain.grace`, "soon", `/${process}/config/server/drain/grace`],
      [`${process}.config.server.listener.addr`, "8080", `/${process}/config/server/listener/addr`],
      [`${process}.replicas`, 3, `/${process}`],
    ] as const)
      await assert.rejects(
        objectsIn(chart, merged(needed(process), treeOf(path, value))),
        ({ message }: Error) => {
          assert.ok(message.includes(`'${wanted}'`), message);
          return true;
        },
      );
    const inUmbrella = treeOf(`${chart}.${process}.config.log.level`, "loud");
    await assert.rejects(
      objectsIn("sluice", inUmbrella),
      new RegExp(`${chart}:\\n- at '/${process}/config/log/level'`),
    );
  });
}

/** All charts, with as much as there is. */
function everything(): Promise<readonly (readonly Rendered[])[]> {
  return Promise.all([
    objectsIn("sluice"),
    ...MODES.map((installationMode) => agent({ installationMode }, EVERYTHING_AGENT)),
    controller(),
    controller(EVERYTHING_CONTROLLER),
  ]);
}

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

test("all pods fit the level restricted, and only those that use the API have a token", async () => {
  for (const objects of await everything())
    for (const each of workloads(objects)) {
      const pod = podOf(each);
      const { name } = each.metadata;
      assert.equal(pod.securityContext.runAsNonRoot, true, name);
      assert.ok(pod.securityContext.runAsUser > 0, name);
      assert.deepEqual(pod.securityContext.seccompProfile, { type: "RuntimeDefault" }, name);
      // Controllers use it where policies are resources.
      const watches = envOf(each).some((one) => one.name === WATCHES && one.value === "true");
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
  const sidecar = only(await agent(EVERYTHING_AGENT), "ConfigMap", "sluice-sidecars");
  assert.equal(sidecar["data"].SVC_INJECTOR_SIDECAR_SECRETS, '["etcd.password=etcd/password"]');
  assert.equal(sidecar["data"].SVC_INJECTOR_SIDECAR_CERTIFICATES, "tls");
});

test("sidecars get one Secret with certificates, and the injector the right to copy what they use", async () => {
  const objects = await agent(EVERYTHING_AGENT);
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

test("agents announce addresses of either family", async () => {
  const values = { installationMode: "KUBERNETES_DAEMONSET", ipFamily: "IPv6" };
  const entries = envOf(only(await agent(values), "DaemonSet"));
  const announced = entries.find(
    ({ name }) => name === "SVC_AGENT_PEER_DISCOVERY_ADVERTISEMENT_ADDR",
  );
  assert.equal(announced?.value, "[$(POD_IP)]:8080");
  assert.equal(entries[0]?.name, "POD_IP", "a variable can only name those before it");
});

test("a second rendering is the same", async () => {
  const both = () =>
    Promise.all([
      rendered("sluice"),
      rendered("sluice-agent", merged(needed("agent"), EVERYTHING_AGENT)),
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
  const injector = podOf(only(objects, "Deployment", "sluice-injector")).containers[0];
  assert.deepEqual(injector.envFrom, [{ configMapRef: { name: "sluice-sidecars" } }]);
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
  assert.equal(webhook["webhooks"].length, 2);
  for (const { clientConfig, namespaceSelector } of webhook["webhooks"]) {
    assert.equal(clientConfig.caBundle, undefined);
    const ignored = namespaceSelector.matchExpressions.find(
      ({ operator }: { operator: string }) => operator === "NotIn",
    );
    assert.ok(ignored.values.includes("sluice") && ignored.values.includes("kube-system"));
  }
  assert.equal(only(objects, "Secret", "sluice-injector-tls")["data"], undefined);
  const managed = await controller({ injector: { certManager: { enabled: true } } });
  assert.ok(!managed.some(({ kind }) => kind === "Secret" || kind === "Role"));
  assert.equal(
    only(managed, "MutatingWebhookConfiguration").metadata.annotations?.[
      "cert-manager.io/inject-ca-from"
    ],
    "sluice/sluice-injector-certificate",
  );
  const rules = only(managed, "ClusterRole")["rules"].flatMap(
    ({ resources }: { resources: string[] }) => resources,
  );
  assert.deepEqual(rules, ["namespaces", "pods", "events"]);
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
