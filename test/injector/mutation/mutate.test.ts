// The mutation of pods: the containers that injection adds and merges, and the pods that it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "#config/load.ts";
import { isObject, type JsonObject, listAt } from "#injector/pod.ts";
import type { InjectionSettings } from "#injector/settings.ts";
import {
  application,
  assertValid,
  containerOf,
  containersOf,
  envOf,
  injected,
  injectInto,
  messageOf,
  OLD,
  podWith,
  SETTINGS,
  specOf,
} from "../kit.ts";

const namesOf = (containers: unknown) =>
  listAt(containers as JsonObject["x"]).map(({ name }) => name);

function object(json: unknown): JsonObject {
  assert.ok(isObject(json as JsonObject));
  return json as JsonObject;
}

test("a pod gets a native sidecar before its own init containers", () => {
  const pod = podWith({
    spec: { initContainers: [{ name: "migrate", image: "m:1" }], containers: [application()] },
  });
  const { whole, warnings } = injected(pod);
  assertValid(whole);
  const spec = specOf(whole);
  assert.deepEqual(namesOf(spec["initContainers"]), ["sluice-agent", "migrate"]);
  assert.deepEqual(namesOf(spec["containers"]), ["application"]);
  const agent = containerOf(whole, "sluice-agent");
  assert.equal(agent["image"], "sluice:1.2.3");
  assert.equal(agent["restartPolicy"], "Always");
  assert.deepEqual(agent["args"], ["agent"]);
  assert.equal(agent["lifecycle"], undefined);
  assert.deepEqual(agent["resources"], {
    requests: { cpu: "100m", memory: "128Mi" },
    limits: { memory: "512Mi" },
  });
  assert.deepEqual(agent["ports"], [
    { name: "sluice", containerPort: 8080, protocol: "TCP" },
    { name: "sluice-metrics", containerPort: 14_380, protocol: "TCP" },
  ]);
  assert.deepEqual(warnings, []);
});

test("a pod pulls the images of sidecars with their Secrets beside its own", () => {
  const settings = { ...SETTINGS, pullSecrets: ["registry", "mirror"] };
  const pulls = (imagePullSecrets?: readonly JsonObject[]) => {
    const spec = imagePullSecrets === undefined ? {} : { imagePullSecrets };
    return specOf(injected(podWith({ spec }), { settings }).whole)["imagePullSecrets"];
  };
  const [own, registry, mirror] = ["own", "registry", "mirror"].map((name) => ({ name }));
  assert.deepEqual(pulls(), [registry, mirror]);
  assert.deepEqual(pulls([own, registry] as JsonObject[]), [own, registry, mirror]);
  assert.equal(specOf(injected(podWith()).whole)["imagePullSecrets"], undefined);
});

test("the sidecar satisfies the restricted standard, and gets no token of the account", () => {
  const { whole } = injected(podWith({ annotations: { "sluice/envoy-inject": "true" } }));
  for (const name of ["sluice-agent", "sluice-envoy"]) {
    const container = containerOf(whole, name);
    const context = object(container["securityContext"]);
    assert.equal(context["runAsNonRoot"], true);
    assert.equal(context["allowPrivilegeEscalation"], false);
    assert.equal(context["readOnlyRootFilesystem"], true);
    assert.deepEqual(context["capabilities"], { drop: ["ALL"] });
    assert.deepEqual(context["seccompProfile"], { type: "RuntimeDefault" });
    const [mount] = listAt(container["volumeMounts"]);
    assert.equal(mount?.["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    const volume = listAt(specOf(whole)["volumes"]).find(
      (each) => each["name"] === mount?.["name"],
    );
    assert.ok(volume?.["emptyDir"]);
  }
  assert.equal(specOf(whole)["serviceAccountName"], undefined);
});

test("probes ask numeric ports, and none of them waits for what the agent needs before the application starts", () => {
  const agent = containerOf(injected(podWith()).whole, "sluice-agent");
  for (const [probe, path] of [
    ["startupProbe", "/v1/status/system/liveness"],
    ["livenessProbe", "/v1/status/system/liveness"],
    ["readinessProbe", "/v1/status/system/readiness"],
  ] as const) {
    assert.deepEqual(object(agent[probe])["httpGet"], { path, port: 8080, scheme: "HTTP" });
  }
});

test("the agent's variables are valid settings, and name the pod", () => {
  const annotations = { "sluice/agent-group": "checkout", "sluice/port": "9080" };
  const agent = containerOf(injected(podWith({ annotations })).whole, "sluice-agent");
  const env = envOf(agent);
  for (const [name, path] of [
    ["NODE_NAME", "spec.nodeName"],
    ["POD_NAME", "metadata.name"],
    ["POD_NAMESPACE", "metadata.namespace"],
    ["POD_IP", "status.podIP"],
    ["POD_IPS", "status.podIPs"],
  ] as const) {
    assert.deepEqual(env[name], { fieldRef: { apiVersion: "v1", fieldPath: path } });
  }
  const texts = Object.entries(env).flatMap(([name, value]) =>
    name.startsWith("SVC_") ? [[name, String(value)] as const] : [],
  );
  const { config } = loadConfig("agent", { env: Object.fromEntries(texts), dotenvDir: "/nowhere" });
  assert.equal(config.agent_info.agent_group, "checkout");
  assert.equal(config.server.listener.addr, ":9080");
  assert.equal(config.cloudext.installation_mode, "KUBERNETES_SIDECAR");
  assert.deepEqual(config.service_discovery.kubernetes, { enabled: true, source: "controller" });
  assert.deepEqual(config.etcd.endpoints, ["http://etcd.sluice.svc:2379"]);
  assert.deepEqual(listAt(agent["ports"])[0]?.["containerPort"], 9080);
});

test("in a cluster of IPv6 addresses Envoy listens on them", () => {
  const pod = podWith({ annotations: { "sluice/envoy-inject": "true" } });
  const bootstrap = (settings: InjectionSettings) =>
    JSON.stringify(containerOf(injected(pod, { settings }).whole, "sluice-envoy")["args"]);
  assert.match(bootstrap(SETTINGS), /"address\\":\\"0\.0\.0\.0/);
  assert.match(
    bootstrap({ ...SETTINGS, ipFamily: "IPv6" }),
    /"address\\":\\"::\\",\\"ipv4_compat\\":true/,
  );
});

test("an address that the configuration announces is kept", () => {
  const own = {
    name: "SVC_AGENT_PEER_DISCOVERY_ADVERTISEMENT_ADDR",
    value: "$(POD_NAME).shop:8080",
  };
  const settings = { ...SETTINGS, sidecar: { ...SETTINGS.sidecar, env: [own] } };
  const agent = containerOf(injected(podWith(), { settings }).whole, "sluice-agent");
  assert.equal(envOf(agent)[own.name], own.value);
});

test("a port that the application listens on refuses the pod, until the agent is moved", () => {
  const spec = { containers: [application({ ports: [{ containerPort: 8080 }] })] };
  assert.match(
    messageOf(injectInto(podWith({ spec }))),
    /port 8080: the agent and container application cannot both listen on it; the annotation sluice\/port/,
  );
  const moved = podWith({ spec, annotations: { "sluice/port": "8090" } });
  assert.equal(injectInto(moved).outcome, "injected");
  const udp = { containers: [application({ ports: [{ containerPort: 8080, protocol: "UDP" }] })] };
  assert.equal(injectInto(podWith({ spec: udp })).outcome, "injected");
});

test("a port that a probe of the application asks is the application's, though it does not declare it", () => {
  const asked = (probe: JsonObject) =>
    injectInto(podWith({ spec: { containers: [application({ livenessProbe: probe })] } }));
  for (const probe of [
    { httpGet: { path: "/", port: 8080 } },
    { tcpSocket: { port: 8080 } },
    { grpc: { port: 8080 } },
  ])
    assert.match(
      messageOf(asked(probe)),
      /^port 8080: the agent and container application, which a probe asks there, .*sluice\/port/,
    );
  assert.equal(asked({ httpGet: { path: "/", port: "http" } }).outcome, "injected");
});

test("a variable PORT that names the agent's port is a warning", () => {
  const warnings = (name: string, value: string) => {
    const containers = [application({ env: [{ name, value }] })];
    return injected(podWith({ spec: { containers } })).warnings;
  };
  for (const name of ["PORT", "SERVER_PORT"])
    assert.match(
      warnings(name, "8080")[0] ?? "",
      new RegExp(`^variable ${name} of container application is 8080, the agent's port`),
    );
  assert.deepEqual(warnings("PORT", "8081"), []);
  assert.deepEqual(warnings("SUPPORT", "8080"), []);
});

test("where only Envoy asks the agent, it listens on loopback, and kubelets ask another port", () => {
  const withEnvoy = { "sluice/envoy-inject": "true" };
  const agentOf = (sidecar: Partial<InjectionSettings["sidecar"]>, annotations: object) => {
    const settings = {
      ...SETTINGS,
      sidecar: { ...SETTINGS.sidecar, port: 14_280, isPortChosen: false, ...sidecar },
    };
    const { whole } = injected(podWith({ annotations: { ...annotations } }), { settings });
    const agent = containerOf(whole, "sluice-agent");
    const variables = Object.entries(envOf(agent)).filter(([, value]) => typeof value === "string");
    const { config } = loadConfig("agent", {
      env: Object.fromEntries(variables) as Record<string, string>,
      dotenvDir: "/nowhere",
    });
    const probes = ["startupProbe", "readinessProbe", "livenessProbe"].map(
      (probe) => object(object(agent[probe])["httpGet"])["port"],
    );
    const { listener } = config.server;
    return { addr: listener.addr, ports: config.otel.ports, probes: [...new Set(probes)] };
  };
  // Profiles and debug pages are on loopback, where they would be in the application's way.
  const closed = { pprof_port: 0, zpages_port: 0 };
  assert.deepEqual(agentOf({}, withEnvoy), {
    addr: "127.0.0.1:14280",
    ports: { debug_port: 14_380, health_check_port: 14_480, host: "0.0.0.0", ...closed },
    probes: [14_480],
  });
  const open = { debug_port: 14_380, health_check_port: 0, host: "", ...closed };
  assert.deepEqual(agentOf({}, {}), { addr: ":14280", ports: open, probes: [14_280] });
  // Whoever configures a port may have others ask there.
  const chosen = agentOf({ port: 9_090, isPortChosen: true }, withEnvoy);
  assert.deepEqual(chosen, { addr: ":9090", ports: open, probes: [9_090] });
  const env = ["DEBUG_PORT", "HEALTH_CHECK_PORT", "PPROF_PORT", "ZPAGES_PORT"].map((key, at) => ({
    name: `SVC_AGENT_OTEL_PORTS_${key}`,
    value: `${9_101 + at}`,
  }));
  const configured = { debug_port: 9_101, health_check_port: 9_102, host: "" };
  const others = { pprof_port: 9_103, zpages_port: 9_104 };
  assert.deepEqual(agentOf({ env }, withEnvoy), {
    addr: ":14280",
    ports: { ...configured, ...others },
    probes: [14_280],
  });
});

test("no two listeners of sidecars get one port", () => {
  const portsOf = (annotations: Readonly<Record<string, string>>, settings = SETTINGS) => {
    const { whole } = injected(podWith({ annotations }), { settings });
    const ports = ["sluice-agent", "sluice-envoy"].flatMap((name) =>
      containersOf(whole)
        .filter((each) => each["name"] === name)
        .flatMap((each) => listAt(each["ports"]).map(({ containerPort }) => containerPort)),
    );
    assert.equal(new Set(ports).size, ports.length, ports.join());
    return ports;
  };
  assert.deepEqual(portsOf({ "sluice/port": "14380" }), [14_380, 14_381]);
  const envoy = { "sluice/envoy-inject": "true" };
  const own = { ...SETTINGS, sidecar: { ...SETTINGS.sidecar, port: 14_280, isPortChosen: false } };
  assert.deepEqual(
    portsOf({ ...envoy, "sluice/port": "14480" }, own),
    [14_480, 14_380, 14_481, 10_000],
  );
  assert.deepEqual(
    portsOf({ ...envoy, "sluice/application-port": "14280" }, own),
    [14_281, 14_380, 14_480, 10_000],
  );
  const moved = { ...own, envoy: { ...own.envoy, port: 14_380, adminPort: 14_480 } };
  assert.deepEqual(portsOf(envoy, moved), [14_280, 14_381, 14_481, 14_380]);
});

test("the default port gives way to all that the pod mentions, where only Envoy asks the agent", () => {
  const settings: InjectionSettings = {
    ...SETTINGS,
    sidecar: { ...SETTINGS.sidecar, port: 14_280, isPortChosen: false },
  };
  const annotations = { "sluice/envoy-inject": "true" };
  const placed = (container: JsonObject, changed: Partial<typeof annotations> = annotations) => {
    const spec = { containers: [application(container)] };
    const { whole } = injected(podWith({ annotations: changed, spec }), { settings });
    const agent = containerOf(whole, "sluice-agent");
    const port = listAt(agent["ports"])[0]?.["containerPort"];
    if (changed === annotations) {
      const envoy = JSON.stringify(containerOf(whole, "sluice-envoy")["args"]);
      assert.ok(envoy.includes(`port_value\\":${port}`), "Envoy asks it there");
      // Another webhook may have the pod reviewed again.
      assert.equal(injectInto(whole, { settings }).outcome, "unchanged");
    }
    return port;
  };
  const declared = { containerPort: 9_000 };
  assert.equal(placed({}), 14_280);
  for (const container of [
    { ports: [declared, { containerPort: 14_280 }] },
    { readinessProbe: { tcpSocket: { port: 14_280 } } },
    { env: [{ name: "PORT", value: "14280" }] },
    { env: [{ name: "LISTEN", value: "0.0.0.0:14280" }] },
    { args: ["--port=14280"] },
  ])
    assert.equal(placed(container), 14_281, JSON.stringify(container));
  assert.equal(placed({ args: ["14280", "-p14281"] }), 14_282);
  // Others would look for the agent where it is documented to be.
  assert.equal(placed({ env: [{ name: "SLUICE", value: "localhost:14280" }] }, {}), 14_280);
});

test("an init container that ends first may use the agent's port; one that goes on may not", () => {
  const init = (fields: JsonObject) => ({
    initContainers: [{ name: "first", image: "i", ports: [{ containerPort: 8080 }], ...fields }],
  });
  assert.equal(
    injectInto(podWith({ spec: { ...specOf(podWith()), ...init({}) } })).outcome,
    "injected",
  );
  const goesOn = podWith({ spec: { ...specOf(podWith()), ...init({ restartPolicy: "Always" }) } });
  assert.match(messageOf(injectInto(goesOn)), /the agent and container first cannot both/);
});

test("a cluster without native sidecars gets plain containers that outlive the application", () => {
  const annotations = { "sluice/envoy-inject": "true" };
  const { whole, warnings } = injected(podWith({ annotations }), { abilities: OLD });
  assertValid(whole);
  assert.deepEqual(namesOf(specOf(whole)["containers"]), [
    "application",
    "sluice-agent",
    "sluice-envoy",
  ]);
  assert.equal(specOf(whole)["initContainers"], undefined);
  const agent = containerOf(whole, "sluice-agent");
  assert.equal(agent["restartPolicy"], undefined);
  const seconds = (name: string) => JSON.stringify(containerOf(whole, name)["lifecycle"]);
  // The application's clients have gone after 5 s, Envoy ends after 10, the agent after 12.
  assert.match(seconds("sluice-agent"), /node.*drain_listeners.*setTimeout.*12000/);
  assert.match(seconds("sluice-envoy"), /"sleep","10"/);
  assert.ok(!warnings.some((warning) => /Kubernetes 1.29/.test(warning)));
  assert.match(warnings.join(), /container application loses requests .*Kubernetes 1.30.* 5 s/);
  const preStop = { exec: { command: ["sleep", "5"] } };
  const waits = podWith({
    annotations,
    spec: { containers: [application({ lifecycle: { preStop } })] },
  });
  const own = injected(waits, { abilities: OLD });
  assert.ok(!own.warnings.some((warning) => /Kubernetes 1.30/.test(warning)));
  const job = podWith({ spec: { ...specOf(podWith()), restartPolicy: "Never" } });
  assert.match(injected(job, { abilities: OLD }).warnings.join(), /Kubernetes 1.29/);
  assert.deepEqual(injected(job).warnings, []);
});

test("too little time to end is a warning", () => {
  const spec = { ...specOf(podWith()), terminationGracePeriodSeconds: 10 };
  assert.match(
    injected(podWith({ spec })).warnings.join(),
    /terminationGracePeriodSeconds 10 .* 15 s/,
  );
});

test("a container that is named like the agent is merged, and its own fields win", () => {
  for (const name of ["sluice-agent", "aperture-agent"]) {
    const own = {
      name,
      image: "auto",
      imagePullPolicy: "Always",
      resources: { limits: { memory: "1Gi" } },
      env: [
        { name: "SVC_AGENT_LOG_LEVEL", value: "debug" },
        { name: "POD_IP", value: "1.2.3.4" },
      ],
      livenessProbe: { tcpSocket: { port: 1 } },
      securityContext: { runAsUser: 7 },
      volumeMounts: [{ name: "own", mountPath: "/own" }],
      ports: [{ name: "sluice", containerPort: 8080 }],
    };
    const spec = {
      containers: [own, application()],
      volumes: [{ name: "own", emptyDir: {} }],
    };
    const { whole } = injected(podWith({ spec }));
    assertValid(whole);
    assert.equal(containersOf(whole).length, 2);
    const agent = containerOf(whole, name);
    assert.equal(agent["image"], "sluice:1.2.3");
    assert.equal(agent["imagePullPolicy"], "IfNotPresent");
    assert.deepEqual(agent["resources"], own.resources);
    assert.deepEqual(agent["livenessProbe"], own.livenessProbe);
    assert.equal(object(agent["securityContext"])["runAsUser"], 7);
    assert.equal(object(agent["securityContext"])["runAsNonRoot"], true);
    assert.equal(envOf(agent)["POD_IP"], "1.2.3.4");
    assert.equal(envOf(agent)["SVC_AGENT_LOG_LEVEL"], "debug");
    assert.deepEqual(namesOf(agent["ports"]), ["sluice", "sluice-metrics"]);
    // Among the application's containers nothing orders their ends.
    assert.deepEqual(agent["lifecycle"], { preStop: { sleep: { seconds: 12 } } });
    assert.equal(agent["restartPolicy"], undefined);
  }
});

test("the image of a merged container is kept unless it is empty or auto", () => {
  for (const [image, wanted] of [
    ["", "sluice:1.2.3"],
    ["auto", "sluice:1.2.3"],
    ["mine:2", "mine:2"],
  ] as const) {
    const spec = { initContainers: [{ name: "sluice-agent", image }], containers: [application()] };
    const agent = containerOf(injected(podWith({ spec })).whole, "sluice-agent");
    assert.equal(agent["image"], wanted);
    assert.equal(agent["restartPolicy"], "Always");
  }
});

test("an Envoy stands before the application, which goes on until clients have gone", () => {
  const { whole, warnings } = injected(podWith({ annotations: { "sluice/envoy-inject": "true" } }));
  assertValid(whole);
  assert.deepEqual(namesOf(specOf(whole)["initContainers"]), ["sluice-agent", "sluice-envoy"]);
  const envoy = containerOf(whole, "sluice-envoy");
  assert.equal(envoy["restartPolicy"], "Always");
  const [flag, text] = envoy["args"] as readonly string[];
  assert.equal(flag, "--config-yaml");
  const args = envoy["args"] as readonly string[];
  assert.equal(args[args.indexOf("--concurrency") + 1], "2", "not one worker for each core");
  // The hooks of all containers run when the pod is told to end: clients learn it before the application ends.
  const end = JSON.stringify(containerOf(whole, "sluice-agent")["lifecycle"]);
  assert.match(end, /"node","-e","fetch.*127\.0\.0\.1:9901\/drain_listeners/);
  assert.doesNotMatch(end, /setTimeout/);
  const clusters = object(object(JSON.parse(text ?? ""))["static_resources"])["clusters"];
  const ports = JSON.stringify(clusters).match(/"port_value":\d+/g);
  // The agent, and the application twice: once for calls of gRPC alone.
  const wanted = [8080, 9000, 9000].map((port) => `"port_value":${port}`);
  assert.deepEqual(ports, wanted);
  assert.deepEqual(containerOf(whole, "application")["lifecycle"], {
    preStop: { sleep: { seconds: 5 } },
  });
  assert.match(warnings.join(), /port 9000 of container application bypasses Envoy.*10000/);
});

test("an application's own end is kept", () => {
  const lifecycle = { preStop: { exec: { command: ["wait"] } } };
  const spec = { containers: [application({ lifecycle })] };
  const { whole } = injected(podWith({ spec, annotations: { "sluice/envoy-inject": "true" } }));
  assert.deepEqual(containerOf(whole, "application")["lifecycle"], lifecycle);
});

test("a pod that asks for itself hears which Secrets nobody copies to its namespace", () => {
  const labels = { "sluice/inject": "true" };
  const namespace = { name: "shop", labels: {}, annotations: {} };
  const password = { name: "sluice-agent", key: "password" };
  const sidecar = {
    ...SETTINGS.sidecar,
    env: [{ name: "SVC_AGENT_ETCD_PASSWORD", valueFrom: { secretKeyRef: password } }],
    certificates: "ca",
  };
  const settings = { ...SETTINGS, pullSecrets: ["registry"], sidecar };
  const warnings = (changed: object) => injected(podWith({ labels }), changed).warnings.join("\n");
  assert.match(
    warnings({ namespace, settings }),
    /nobody copies Secrets to namespace shop, .*: put registry, sluice-agent, ca there/,
  );
  assert.equal(warnings({ namespace }), "");
  assert.equal(warnings({ settings }), "");
});

test("an Envoy beside a proxy of Istio, which is there or will be, is a warning", () => {
  const proxy = { name: "istio-proxy", image: "proxyv2:1" };
  const spec = { containers: [application(), proxy] };
  const asked = { "sluice/envoy-inject": "true" };
  const istio = { "sidecar.istio.io/inject": "true" };
  for (const pod of [
    { spec, annotations: asked },
    { annotations: { ...asked, ...istio } },
    { annotations: asked, labels: istio },
  ])
    assert.match(
      injected(podWith(pod)).warnings.join("\n"),
      /both istio-proxy and the injected Envoy stand before the application/,
    );
  const no = { "sidecar.istio.io/inject": "false" };
  const { warnings } = injected(podWith({ annotations: asked, labels: no }));
  assert.doesNotMatch(warnings.join("\n"), /istio-proxy/);
});

test("Envoy needs a port of the application", () => {
  const spec = { containers: [application({ ports: [] })] };
  const annotations = { "sluice/envoy-inject": "true" };
  assert.match(
    messageOf(injectInto(podWith({ spec, annotations }))),
    /application-port: wanted a port/,
  );
  const named = { ...annotations, "sluice/application-port": "7000" };
  assert.equal(injectInto(podWith({ spec, annotations: named })).outcome, "injected");
  // Unless the pod asked for an Envoy, it gets the agent alone.
  const settings = { ...SETTINGS, envoy: { ...SETTINGS.envoy, inject: true } };
  const { whole, warnings } = injected(podWith({ spec }), { settings });
  assert.deepEqual(namesOf(specOf(whole)["initContainers"]), ["sluice-agent"]);
  assert.match(warnings.join(), /no Envoy was added/);
});

test("the baggage of Envoy's clients is ignored unless the pod or the settings say otherwise", () => {
  const spec = { containers: [application({ ports: [{ containerPort: 9_000 }] })] };
  const bootstrapOf = (wish: Record<string, string>, clientBaggage: "ignore" | "believe") => {
    const annotations = { "sluice/envoy-inject": "true", ...wish };
    const settings = { ...SETTINGS, envoy: { ...SETTINGS.envoy, clientBaggage } };
    return JSON.stringify(injected(podWith({ spec, annotations }), { settings }).whole);
  };
  const says = (value: string) => new RegExp(`client-baggage[^}]*value[^}]*${value}`);
  const key = "sluice/envoy-client-baggage";
  assert.match(bootstrapOf({}, "ignore"), says("ignore"));
  assert.match(bootstrapOf({}, "believe"), says("believe"));
  assert.match(bootstrapOf({ [key]: "believe" }, "ignore"), says("believe"));
  assert.match(bootstrapOf({ [key]: "ignore" }, "believe"), says("ignore"));
  const wrong = { "sluice/envoy-inject": "true", [key]: "yes" };
  assert.match(
    messageOf(injectInto(podWith({ spec, annotations: wrong }))),
    /envoy-client-baggage: wanted "ignore" or "believe", got "yes"/,
  );
});

test("annotations say what Envoy does with silence, bodies and escaped slashes", () => {
  const spec = { containers: [application({ ports: [{ containerPort: 9_000 }] })] };
  const bootstrapOf = (wish: Record<string, string>) => {
    const annotations = { "sluice/envoy-inject": "true", ...wish };
    const { args } = containerOf(injected(podWith({ spec, annotations })).whole, "sluice-envoy");
    assert.ok(Array.isArray(args));
    return String(args[1]);
  };
  const usual = bootstrapOf({});
  assert.match(usual, /"stream_idle_timeout":"3600s"/);
  assert.match(usual, /"max_request_bytes":8192/);
  assert.match(usual, /"REJECT_REQUEST"/);
  assert.match(usual, /"upgrade_configs":\[{"upgrade_type":"websocket"}\]/);
  assert.doesNotMatch(usual, /connect_matcher/);
  const other = bootstrapOf({
    "sluice/envoy-idle-timeout": "4h",
    "sluice/envoy-body-bytes": "0",
    "sluice/envoy-escaped-slashes": "keep",
    "sluice/envoy-upgrades": "websocket, CONNECT",
  });
  assert.match(
    other,
    /"stream_idle_timeout":"14400s","common_http_[^:]*:{"idle_timeout":"14400s"}/,
  );
  assert.doesNotMatch(other, /with_request_body/);
  assert.match(other, /"KEEP_UNCHANGED"/);
  assert.match(
    other,
    /"upgrade_configs":\[{"upgrade_type":"websocket"},{"upgrade_type":"CONNECT"}\]/,
  );
  assert.match(other, /"routes":\[{"match":{"connect_matcher":{}}/);
  assert.match(bootstrapOf({ "sluice/envoy-upgrades": "" }), /"upgrade_configs":\[\]/);
  assert.match(bootstrapOf({ "sluice/envoy-idle-timeout": "0s" }), /"stream_idle_timeout":"0s"/);
});

test("a pod of a mesh gets no second proxy unless it asks for it", () => {
  const settings = { ...SETTINGS, envoy: { ...SETTINGS.envoy, inject: true } };
  const spec = { containers: [application(), { name: "istio-proxy", image: "p" }] };
  const { whole, warnings } = injected(podWith({ spec }), { settings });
  assert.deepEqual(namesOf(specOf(whole)["initContainers"]), ["sluice-agent"]);
  assert.match(warnings.join(), /the pod has istio-proxy/);
});

test("an application on Envoy's port refuses the pod", () => {
  for (const port of [10_000, 9_901]) {
    const spec = { containers: [application({ ports: [{ containerPort: port }] })] };
    const annotations = { "sluice/envoy-inject": "true" };
    assert.match(messageOf(injectInto(podWith({ spec, annotations }))), /cannot both listen/);
  }
});

test("a Secret with certificates is mounted", () => {
  const settings = { ...SETTINGS, sidecar: { ...SETTINGS.sidecar, certificates: "etcd-ca" } };
  const { whole } = injected(podWith(), { settings });
  assertValid(whole);
  const mounts = listAt(containerOf(whole, "sluice-agent")["volumeMounts"]);
  assert.ok(mounts.some(({ mountPath }) => mountPath === "/etc/sluice/certificates"));
  assert.match(JSON.stringify(specOf(whole)["volumes"]), /"secretName":"etcd-ca"/);
});

test("warnings are few and short", () => {
  const annotations = Object.fromEntries(
    Array.from({ length: 100 }, (_, at) => [`sluice/${"x".repeat(400)}${at}`, ""]),
  );
  const { warnings } = injected(podWith({ annotations }));
  assert.equal(warnings.length, 12);
  for (const warning of warnings) assert.ok(warning.length <= 250);
});

for (const [path, pod] of [
  ["object: wanted an object, got nothing", undefined],
  ["spec: wanted an object, got a list", { spec: [] }],
  ["spec.containers: wanted a list, got an object", { spec: { containers: {} } }],
  ["spec.containers[0].name: wanted text, got nothing", { spec: { containers: [{}] } }],
  [
    'metadata.annotations["a"]: wanted text, got a number',
    { metadata: { annotations: { a: 1 } }, spec: {} },
  ],
] as const) {
  test(`what is no pod is named: ${path}`, () => {
    assert.throws(() => injectInto(pod as unknown as JsonObject), { message: path });
  });
}
