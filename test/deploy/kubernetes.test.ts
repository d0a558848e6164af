// Tests the pod of deploy/kubernetes as far as possible without a cluster: its settings exist, its policies compile,
// Envoy accepts its bootstrap, its probes ask for routes that exist, and Sluice runs with the pod's rights.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { ineffectiveSettings } from "#config/ineffective.ts";
import { nameOf } from "#config/read/variables.ts";
import { leaves, PROCESSES } from "#config/tree.ts";
import { compileSet } from "#policy/set.ts";
import { envoy } from "../../deploy/tools/install.ts";
import { folderOf } from "../kit/folder.ts";
import { configOf } from "../kit/sluice/config.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { OPTIONS } from "../policy/kit.ts";

interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string | number };
  readonly tcpSocket?: { readonly port: string | number };
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly restartPolicy?: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly resources?: { readonly requests: object; readonly limits: object };
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

interface Pod {
  readonly terminationGracePeriodSeconds: number;
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap: { readonly name: string };
  }[];
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly template?: { readonly spec: Pod } };
}

const DEPLOY = join(import.meta.dirname, "../../deploy");

const manifests = parseAllDocuments(
  readFileSync(join(DEPLOY, "kubernetes/sidecar.yaml"), "utf8"),
).map((document): Manifest => {
  assert.deepEqual(document.errors, []);
  return document.toJS();
});

function podOf(): Pod {
  const pod = manifests.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec;
  assert.ok(pod, "a Deployment");
  return pod;
}

const pod = podOf();
const all = [...pod.initContainers, ...pod.containers];

function container(name: string): Container {
  const found = all.find((each) => each.name === name);
  assert.ok(found, `a container ${name}`);
  return found;
}

const sluice = container("sluice");
const env = Object.fromEntries((sluice.env ?? []).map(({ name, value }) => [name, value]));

/** The data that is mounted at a directory of the container. */
function mounted(of: Container, path: string): Readonly<Record<string, string>> {
  const volume = of.volumeMounts?.find(({ mountPath }) => mountPath === path)?.name;
  const map = pod.volumes.find(({ name }) => name === volume)?.configMap.name;
  const data = manifests.find(
    ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === map,
  )?.data;
  assert.ok(data, `${path} of ${of.name} is a ConfigMap`);
  return data;
}

function policies(): Readonly<Record<string, string>> {
  const args = sluice.args ?? [];
  assert.equal(args[0], "standalone");
  return mounted(sluice, args[args.indexOf("--policies") + 1] ?? "");
}

test("every variable is a valid setting of the agent and has an effect", () => {
  const known = new Set(
    leaves(PROCESSES.agent.table).map(({ path }) => nameOf("agent", path, "leaf")),
  );
  assert.ok(Object.keys(env).length > 0);
  for (const name of Object.keys(env)) assert.ok(known.has(name), `${name} is a key's name`);
  const loaded = configOf("agent", env);
  assert.deepEqual(ineffectiveSettings(loaded), []);
});

test("the policies compile", () => {
  const texts = Object.entries(policies()).map(([source, text]) => ({
    source,
    defaultName: source.replace(/\.\w+$/, ""),
    text,
  }));
  assert.ok(texts.length > 0);
  const set = compileSet(texts, OPTIONS);
  assert.deepEqual(set.findings, []);
  assert.ok(set.policies.every((each) => each.configs.length > 0));
});

test("Envoy's bootstrap is deploy/envoy/sidecar.yaml, reachable from outside, and Envoy accepts it", () => {
  const text = mounted(container("envoy"), "/etc/envoy")["envoy.yaml"] ?? "";
  const copied = readFileSync(join(DEPLOY, "envoy/sidecar.yaml"), "utf8");
  const outside = copied.replace(
    "address: 127.0.0.1, port_value: 10000",
    "address: 0.0.0.0, port_value: 10000",
  );
  assert.notEqual(outside, copied);
  assert.deepEqual(parse(text), parse(outside));
  execFileSync(envoy(), ["--mode", "validate", "--config-yaml", text], { stdio: "pipe" });
});

test("Envoy asks the port that Sluice listens on", () => {
  const { addr } = configOf("agent", env).config.server.listener;
  const port = sluice.ports?.find(({ name }) => name === "sluice")?.containerPort;
  assert.equal(addr, `:${port}`);
  const text = mounted(container("envoy"), "/etc/envoy")["envoy.yaml"] ?? "";
  assert.match(text, new RegExp(`address: 127.0.0.1, port_value: ${port} `));
});

test("probes of init containers name their port by number, and the container listens on it", () => {
  // Kubernetes finds no port by name in an init container, not even in one that goes on running.
  for (const { name, ports, startupProbe, readinessProbe, livenessProbe } of pod.initContainers) {
    const probes = [startupProbe, readinessProbe, livenessProbe].filter((probe) => probe);
    assert.ok(probes.length > 0, name);
    for (const probe of probes) {
      const port = (probe?.httpGet ?? probe?.tcpSocket)?.port;
      assert.equal(typeof port, "number", name);
      assert.ok(
        ports?.some(({ containerPort }) => containerPort === port),
        `${name} has port ${port}`,
      );
    }
  }
});

test("no container runs as root, writes to its root file system or gains privileges", () => {
  for (const { name, securityContext = {}, resources } of all) {
    assert.equal(securityContext["runAsNonRoot"], true, name);
    assert.ok(Number(securityContext["runAsUser"]) > 0, name);
    assert.equal(securityContext["readOnlyRootFilesystem"], true, name);
    assert.equal(securityContext["allowPrivilegeEscalation"], false, name);
    assert.deepEqual(securityContext["capabilities"], { drop: ["ALL"] }, name);
    assert.ok(resources?.requests && resources.limits, name);
  }
});

test("the termination grace period is long enough for the containers to end one after the other", () => {
  const { accept_for, grace } = configOf("agent", env).config.server.drain;
  const sleep = container("application").lifecycle?.preStop.sleep.seconds ?? 0;
  const spare = 10;
  const needed = sleep + (accept_for + grace) / 1_000 + spare;
  assert.ok(pod.terminationGracePeriodSeconds >= needed, `at least ${needed} s`);
  // They start in this order and end in the reverse order.
  assert.deepEqual(
    pod.initContainers.map(({ name, restartPolicy }) => `${name} ${restartPolicy}`),
    ["sluice Always", "envoy Always"],
  );
});

/** A user without any rights, where this process may switch to one that can read the checkout. */
function stranger(t: TestContext): { readonly uid?: number } {
  if (process.getuid?.() !== 0) return {};
  for (let path = import.meta.dirname; path !== "/"; path = dirname(path)) {
    if ((statSync(path).mode & 0o005) !== 0o005) {
      t.diagnostic(`${path} is not for everybody to read: run as root instead`);
      return {};
    }
  }
  return { uid: 65_534 };
}

test("the process runs without privileges and without a writable directory, and answers its probes", async (t) => {
  const closed = folderOf(t);
  chmodSync(closed, 0o555);
  const { address, child } = await standaloneProcess(t, {
    policies: policies(),
    env: {
      ...env,
      // As in the pod, except the ports, which may be in use here.
      SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
      SVC_AGENT_SERVER_ADMINISTRATION_ADDR: "127.0.0.1:0",
      SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
      SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
      SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
      SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
      HOME: closed,
      TMPDIR: closed,
    },
    cwd: "/",
    ...stranger(t),
  });
  const get = (path: string) => fetch(`http://${address}${path}`);
  const probes = [sluice.startupProbe, sluice.readinessProbe, sluice.livenessProbe];
  for (const probe of probes) {
    const path = probe?.httpGet?.path ?? "";
    await until(`200 from ${path}`, async () => (await get(path)).status === 200);
  }
  assert.equal((await get("/v1/status")).status, 404, "administration is elsewhere");
  const check = await fetch(`http://${address}/v1/flowcontrol/checkhttp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ control_point: "ingress", request: { method: "GET", path: "/" } }),
  });
  assert.equal(check.status, 200, await check.text());
  child.kill("SIGTERM");
  assert.equal(await child.ended, 0, child.err());
  assert.doesNotMatch(child.out() + child.err(), /"level":"error"|EACCES|EROFS/);
});
