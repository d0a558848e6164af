// The values of the charts: which mode they choose, how configuration becomes variables, and what is refused. Needs Helm and no
// cluster.

import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { nameOf } from "#config/read/variables.ts";
import type { LeafRow } from "#config/table/row.ts";
import { validateText, validateValue } from "#config/table/value.ts";
import { leaves, PROCESSES } from "#config/tree.ts";
import { folderOf } from "../../kit/folder.ts";
import {
  type Chart,
  chartPath,
  helm,
  objectsIn,
  objectsOf,
  type Rendered,
  type Values,
} from "../../kit/kube/helm.ts";
import {
  agent,
  controller,
  ENDPOINTS,
  EVERYTHING_AGENT,
  EVERYTHING_CONTROLLER,
  environment,
  envOf,
  kinds,
  MODES,
  merged,
  needed,
  only,
  treeOf,
  workloads,
} from "../../kit/kube/rendering.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { goodSamples } from "../../kit/sluice/config-samples.ts";

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
  assert.deepEqual(kinds(daemonSet ?? []).toSorted(), [
    "ClusterRole",
    "ClusterRoleBinding",
    "DaemonSet",
    "Service",
    "ServiceAccount",
  ]);
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

test("a request of resources above its limit is refused, whatever their units", async () => {
  const resources = (memory: string, cpu: unknown = "100m") => ({
    requests: { memory, cpu },
    limits: { memory: "1Gi", cpu: "2" },
  });
  const daemons = { installationMode: "KUBERNETES_DAEMONSET" };
  for (const wrong of [resources("1025Mi"), resources("2G"), resources("1Mi", 3)]) {
    const message = /resources\.requests\.(memory|cpu): wanted at most the limit, (1Gi|2), got/;
    await assert.rejects(agent({ agent: { resources: wrong } }), message);
    await assert.rejects(agent(daemons, { agent: { resources: wrong } }), message);
    await assert.rejects(agent({ sidecars: { envoy: { resources: wrong } } }), message);
    await assert.rejects(controller({ controller: { resources: wrong } }), message);
    await assert.rejects(controller({ injector: { resources: wrong } }), message);
  }
  for (const right of [resources("1024Mi"), resources("1G", 2), resources("1048576Ki", "2000m")])
    await agent(daemons, { agent: { resources: right } });
});

test("sidecars get further variables, and a PodMonitor that finds them in each namespace", async () => {
  const extraEnv = [
    { name: "NODE_OPTIONS", value: "--max-old-space-size=256" },
    { name: "SVC_AGENT_LOG_LEVEL", value: "debug" },
  ];
  const objects = await agent({ agent: { extraEnv }, podMonitor: { enabled: true } });
  const { data } = only(objects, "ConfigMap") as Rendered & { data: Record<string, string> };
  assert.equal(data["SVC_INJECTOR_SIDECAR_EXTRA_ENV"], '["NODE_OPTIONS=--max-old-space-size=256"]');
  assert.equal(data["SVC_AGENT_LOG_LEVEL"], "debug");
  const { spec } = only(objects, "PodMonitor") as Rendered & {
    spec: { namespaceSelector: object; selector: object; podMetricsEndpoints: { port: string }[] };
  };
  assert.deepEqual(spec.namespaceSelector, { any: true });
  assert.deepEqual(spec.selector, {});
  assert.equal(spec.podMetricsEndpoints[0]?.port, "sluice-metrics");
  const secret = { name: "A", valueFrom: { secretKeyRef: { name: "a", key: "b" } } };
  await assert.rejects(
    agent({ agent: { extraEnv: [secret] } }),
    /agent\.extraEnv: .*got valueFrom for A/,
  );
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
      { sidecars: { envoy: { port: 14_280 } } },
      /sidecars\.envoy\.port: wanted another port than those of the agent/,
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

test("values that contradict each other are refused, with what was wanted and what was got", async () => {
  const release = (...values: readonly Values[]) => objectsIn("sluice", merged(...values));
  const mode = (to: string) => treeOf("sluice-agent.installationMode", to);
  const AGENTS_ETCD = treeOf("sluice-agent.agent.config.etcd.endpoints", ENDPOINTS);
  const CONTROLLERS_ETCD = treeOf("sluice-controller.controller.config.etcd.endpoints", ENDPOINTS);
  const etcds = (agents: readonly string[], controllers: readonly string[]) =>
    merged(
      treeOf("sluice-agent.agent.config.etcd.endpoints", agents),
      treeOf("sluice-controller.controller.config.etcd.endpoints", controllers),
    );
  const FOLLOWING = treeOf(
    "sluice-agent.agent.config.service_discovery.kubernetes.source",
    "controller",
  );
  const PUBLISHED = "sluice-controller.controller.config.service_discovery.kubernetes.enabled";
  const noInjector = treeOf("sluice-controller.injector.enabled", false);
  for (const [render, message] of [
    [
      () =>
        controller(
          treeOf("autoScale.enabled", true),
          treeOf("controller.config.auto_scale.kubernetes.enabled", false),
        ),
      /autoScale\.enabled: true contradicts controller\.config\.auto_scale\.kubernetes\.enabled, which is false/,
    ],
    [
      () =>
        controller(
          treeOf("policies.crWatcher.enabled", true),
          treeOf("controller.config.policies.cr_watcher.enabled", false),
        ),
      /policies\.crWatcher\.enabled: true contradicts controller\.config\.policies\.cr_watcher\.enabled/,
    ],
    [
      () => controller(treeOf("gatewayApi.enabled", true)),
      /gatewayApi\.enabled: wanted policies\.crWatcher\.enabled too/,
    ],
    [
      () => agent(treeOf("agent.config.service_discovery.kubernetes.source", "api_server")),
      /kubernetes\.source: wanted controller in KUBERNETES_SIDECAR mode, .*got api_server/,
    ],
    [
      () => release(mode("KUBERNETES_DEPLOYMENT")),
      /injector\.enabled: wanted false beside sluice-agent\.installationMode KUBERNETES_DEPLOYMENT, got true/,
    ],
    [
      () => release(mode("KUBERNETES_DAEMONSET")),
      /injector\.enabled: wanted false beside sluice-agent\.installationMode KUBERNETES_DAEMONSET, got true/,
    ],
    [
      () => release(noInjector),
      /injector\.enabled: wanted true beside .* KUBERNETES_SIDECAR, got false: no pod would get an agent/,
    ],
    [
      () => release(treeOf("sluice-agent.sidecars.configMap", "mine")),
      /sidecars\.configMap: wanted .*\(sluice-controller\.injector\.sidecars\), sluice-sidecars, got mine/,
    ],
    [
      () => release(treeOf("sluice-controller.injector.name", "mine")),
      /sidecars\.injectorAccount: wanted .*\(sluice-controller\.injector\.name\), mine, got sluice-injector/,
    ],
    ...["sluice-agent.enabled", "sluice-agent.agent.create"].map(
      (none) =>
        [
          () => release(treeOf(none, false)),
          new RegExp(`injector\\.enabled: wanted false beside ${none} false, got true`),
        ] as const,
    ),
    [
      () => release(AGENTS_ETCD),
      /sluice-controller\.controller\.config\.etcd\.endpoints: wanted the addresses in sluice-agent\.agent\.config\.etcd\.endpoints \(https:\/\/etcd\.example\.com:2379\), got none/,
    ],
    [
      () => release(CONTROLLERS_ETCD),
      /sluice-agent\.agent\.config\.etcd\.endpoints: wanted the addresses in sluice-controller\.controller\.config\.etcd/,
    ],
    [
      () => release(etcds(["http://a:1", "http://b:1"], ["http://c:1"])),
      /sluice-agent\.agent\.config\.etcd\.endpoints: wanted at least one of the addresses in .* \(http:\/\/c:1\), spelled alike, got http:\/\/a:1, http:\/\/b:1/,
    ],
    [
      () => controller(treeOf("injector", { replicaCount: 0, failurePolicy: "Fail" })),
      /injector\.replicaCount: wanted at least 1 beside injector\.failurePolicy Fail, got 0/,
    ],
    [
      () => release(treeOf("sluice-agent.agent.config.etcd.namespace", "mine")),
      /sluice-agent\.agent\.config\.etcd\.namespace: wanted that of the controllers \(sluice-controller\.controller\.config\.etcd\.namespace\), aperture, got mine/,
    ],
    [
      () => release(treeOf("sluice-controller.controller.config.etcd.namespace", "mine")),
      /etcd\.namespace: wanted that of the controllers .*, mine, got aperture/,
    ],
    [
      () => release(FOLLOWING, mode("KUBERNETES_DAEMONSET"), noInjector),
      /kubernetes\.enabled: wanted true beside .*source controller, got false/,
    ],
    [
      () => release(FOLLOWING, treeOf(PUBLISHED, false)),
      /sluice-controller\.controller\.config\.service_discovery\.kubernetes\.enabled: wanted true beside sluice-agent\.agent\.config\.service_discovery\.kubernetes\.source controller, got false/,
    ],
    ...[
      "127.0.0.1:9999",
      "localhost:80",
      "LOCALHOST:80",
      "ip6-localhost:80",
      "[::1]:80",
      "[0:0:0:0:0:0:0:1]:80",
      "[::ffff:127.0.0.1]:80",
    ].flatMap((addr) => {
      const listener = (process: string) => treeOf(`${process}.config.server.listener.addr`, addr);
      const got = `${addr.replace(/[[\]]/g, "\\$&")}`;
      return [
        [
          () => agent({ installationMode: "KUBERNETES_DAEMONSET" }, listener("agent")),
          new RegExp(
            `agent\\.config\\.server\\.listener\\.addr: wanted an address .*, beside installationMode KUBERNETES_DAEMONSET, got ${got}`,
          ),
        ],
        [
          () => controller(listener("controller")),
          new RegExp(`controller\\.config\\.server\\.listener\\.addr: wanted .*, got ${got}`),
        ],
      ] as const;
    }),
  ] as const)
    await assert.rejects(render(), message);
  // Each of them is fine where the others follow.
  for (const values of [
    merged(mode("KUBERNETES_DEPLOYMENT"), noInjector),
    merged(treeOf("sluice-agent.enabled", false), noInjector),
    merged(treeOf("sluice-agent.agent.create", false), noInjector),
    merged(AGENTS_ETCD, CONTROLLERS_ETCD),
    etcds(["http://a:1", "http://b:1"], ["http://b:1", "http://c:1"]),
    merged(treeOf("sluice-agent.agent.config.etcd.namespace", "aperture")),
    merged(
      treeOf("sluice-agent.agent.config.etcd.namespace", "mine"),
      treeOf("sluice-controller.controller.config.etcd.namespace", "mine"),
    ),
    FOLLOWING,
    merged(FOLLOWING, treeOf(PUBLISHED, true)),
    treeOf(PUBLISHED, false),
    merged(mode("KUBERNETES_DEPLOYMENT"), noInjector, FOLLOWING),
    merged(
      treeOf("sluice-agent.sidecars", { configMap: "mine", injectorAccount: "own" }),
      treeOf("sluice-controller.injector", { sidecars: "mine", name: "own" }),
    ),
  ])
    await release(values);
  for (const addr of [":8080", "0.0.0.0:8080", "[::]:8080", "[::10:1]:8080"])
    await controller(treeOf("controller.config.server.listener.addr", addr));
  await controller(treeOf("injector", { replicaCount: 0, failurePolicy: "Ignore" }));

  // The chart compares with this default.
  for (const process of ["agent", "controller"] as const)
    assert.equal(configOf(process).config.etcd.namespace, "aperture");
  const through = treeOf("agent.config.service_discovery.kubernetes.source", "api_server");
  await agent({ installationMode: "KUBERNETES_DAEMONSET" }, through);
});

test("sidecars and controllers do not share a Secret with a password or a private key", async () => {
  const password = (process: string, name: string) =>
    treeOf(`sluice-${process}.${process}.secrets.etcd.password`, { name, key: process });
  const user = (process: string) =>
    treeOf(`sluice-${process}.${process}.config.etcd.username`, process);
  const tls = (process: string, certificate: boolean) =>
    treeOf(`sluice-${process}.tls.etcd`, { secretName: "tls", certificate });
  const release = (...values: readonly Values[]) => objectsIn("sluice", merged(...values));
  const both = (name: string) =>
    merged(
      ...["agent", "controller"].map(user),
      password("agent", name),
      password("controller", "shared"),
    );
  const refused = /sluice-agent: wanted a Secret for sidecars .* got (shared|tls) in the values/;
  await assert.rejects(release(both("shared")), refused);
  await assert.rejects(release(tls("agent", true), tls("controller", true)), refused);
  await release(both("own"));
  await release(tls("agent", false), tls("controller", true));
  // Nothing is copied for agents that run by themselves.
  const noInjector = treeOf("sluice-controller.injector.enabled", false);
  const daemons = treeOf("sluice-agent.installationMode", "KUBERNETES_DAEMONSET");
  await release(both("shared"), noInjector, daemons);
});

test("values that only the API server would refuse are refused with their path", async () => {
  for (const [path, value, where] of [
    ["fullnameOverride", "UPPER_case", "/fullnameOverride"],
    ["commonLabels", { team: "not a label" }, "/commonLabels/team"],
    ["commonLabels", { "not a name": "x" }, "/commonLabels"],
    ["serviceMonitor.labels", { team: "not a label" }, "/serviceMonitor/labels/team"],
    ["prometheusRule.labels", { team: "not a label" }, "/prometheusRule/labels/team"],
    ["dashboard.labels", { team: "not a label" }, "/dashboard/labels/team"],
    ["dashboard.annotations", { "a/b/c": "x" }, "/dashboard/annotations"],
    ["serviceAccount.name", "Agent", "/serviceAccount/name"],
    ["controller.tolerations", [{ foo: 1 }], "/controller/tolerations/0"],
    ["controller.affinity", { foo: 1 }, "/controller/affinity"],
    ["controller.priorityClassName", "High", "/controller/priorityClassName"],
    ["controller.extraEnv", [{ name: "A", value: 1 }], "/controller/extraEnv/0/value"],
    ["controller.extraVolumes", [{ emptyDir: {} }], "/controller/extraVolumes/0"],
    ["controller.extraVolumeMounts", [{ name: "more" }], "/controller/extraVolumeMounts/0"],
    ["controller.topologySpreadConstraints", [{}], "/controller/topologySpreadConstraints/0"],
  ] as const)
    await assert.rejects(controller(treeOf(path, value)), new RegExp(`at '${where}'`), path);
});

test("annotations of an account that the chart does not make are refused", async () => {
  const serviceAccount = { name: "mine", annotations: { role: "x" } };
  const refused = /serviceAccount\.annotations: wanted none beside serviceAccount\.name/;
  await assert.rejects(controller({ serviceAccount }), refused);
  const installationMode = "KUBERNETES_DAEMONSET";
  await assert.rejects(agent({ installationMode, serviceAccount }), refused);
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
  // Values of their own stand for these, because they also give rights and quotas.
  const refused = ["policies.namespaces", "policies.namespace_quota"];
  return leaves(PROCESSES[process].table)
    .filter(({ path }) => !secrets.includes(path) && !refused.includes(path))
    .map(({ path, row }) => [path, row] as const);
}

/** Values of keys that are refused beside others of the samples. */
const TOGETHER: readonly (readonly [path: RegExp, raw: unknown])[] = [
  [/_file$/, "/tls/file"],
  [/^etcd\.username$/, "sluice"],
  [/tls\.enabled$|^server\.administration\.enabled$/, true],
  [/^server\.tls\.allowed_cn$/, "agents.example.com"],
  [/^dist_cache\.tls\.allowed_cn$/, "agents"],
  [/^counters\.redis\.url$/, "rediss://redis:6379"],
  [/^counters\.redis\.cluster$/, false],
  [/^counters\.redis\.sentinel\.addresses$/, ["sentinel:26379"]],
  [/send_batch_max_size$/, 0],
];

for (const process of ["agent", "controller"] as const) {
  const chart = `sluice-${process}` as const;
  const main = async (...values: readonly Values[]) =>
    process === "agent"
      ? only(await agent({ installationMode: "KUBERNETES_DAEMONSET" }, ...values), "DaemonSet")
      : only(await controller(...values), "Deployment", "sluice-controller");

  test(`${process}.config becomes variables that mean the same`, async () => {
    for (const at of [0, 1]) {
      const samples = plainLeaves(process).map(([path, row]) => {
        const sample = goodSamples(row).at(at) ?? goodSamples(row)[0];
        const raw = TOGETHER.find(([fits]) => fits.test(path))?.[1] ?? sample?.raw;
        return { path, row, raw };
      });
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
        ...samples.map(({ path, raw }) => treeOf(`${process}.config.${path}`, raw)),
        treeOf(`${process}.secrets.etcd.password`, { name: "etcd", key: "password" }),
        fixed,
      );
      const env = environment(envOf(await main(values)));
      for (const { path, row, raw } of samples) {
        if (/^(?:server\.listener\.addr|etcd\.endpoints|dist_cache\.)/.test(path)) continue;
        const text = env[nameOf(process, path, "leaf")];
        assert.ok(text !== undefined && raw !== undefined, path);
        if (row.kind === "objects") assert.deepEqual(JSON.parse(text), raw, path);
        else assert.deepEqual(validateText(row, text), validateValue(row, raw), path);
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

test("the notes of the chart sluice name only what the release has", async (t) => {
  const folder = folderOf(t);
  cpSync(chartPath("sluice"), folder, { recursive: true });
  const templates = join(folder, "templates");
  const notes = readFileSync(join(templates, "NOTES.txt"), "utf8");
  // Helm prints notes only with a cluster, so here they are the field of an object.
  const object = 'kind: Notes\nmetadata: { name: notes }\ntext: {{ include "notes" . | toJson }}\n';
  writeFileSync(
    join(templates, "notes.yaml"),
    `{{- define "notes" }}${notes}{{ end }}apiVersion: v1\n${object}`,
  );
  const notesOf = async (values: Values): Promise<string> => {
    const args = ["template", "x", folder, "--namespace", "sluice"];
    const flags = ["--kube-version", "1.34.1", "--show-only", "templates/notes.yaml"];
    return objectsOf(await helm([...args, ...flags], { values }))[0]?.["text"];
  };
  const usual = await notesOf({});
  assert.match(usual, /rollout status deployment\/sluice-injector\n/);
  assert.match(usual, /kubectl label namespace NAMESPACE sluice-injection=enabled/);
  const without = await notesOf(treeOf("sluice-controller.enabled", false));
  assert.doesNotMatch(without, /sluice-injector|label namespace/);
  assert.match(without, /This release has no injector/);
  const onNodes = await notesOf(
    merged(
      treeOf("sluice-agent.installationMode", "KUBERNETES_DAEMONSET"),
      treeOf("sluice-controller.injector.enabled", false),
    ),
  );
  assert.doesNotMatch(onNodes, /label namespace/);
  assert.match(onNodes, /rollout status daemonset\/x-agent\n/);
  assert.match(onNodes, /over gRPC at\n\n {5}x-agent\.sluice\.svc:8080\n/);
  const noAgents = await notesOf(
    merged(
      treeOf("sluice-agent.enabled", false),
      treeOf("sluice-controller.injector.enabled", false),
    ),
  );
  assert.match(noAgents, /this release has none/);
});
