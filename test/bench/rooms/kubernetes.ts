// Cost of a large cluster for the injector and service discovery: 1 000 pods created at 50 a second through a real API server,
// and 10 000 endpoints. `node --expose-gc test/bench/rooms/kubernetes.ts [PODS] [ENDPOINTS]` prints times and memory, which
// nobody judges, and fails if a pod lacks its sidecar or an endpoint is not found.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Agent, createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { seededChance } from "#base/chance.ts";
import { openDiscovery } from "#kube/discovery/discovery.ts";
import { realClock } from "#runtime/life/clock.ts";
import { type ControlPlane, startControlPlane } from "../../kit/kube/control-plane.ts";
import { variables } from "../../kit/process.ts";
import { type Child, child } from "../../kit/servers/child.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { silentLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";
import { megabytes, printRow } from "../measure/report.ts";
import { cpuSeconds, privateBytes, residentBytes } from "../servers/usage.ts";

const PODS = Number(process.argv[2] ?? 1_000);
const ENDPOINTS = Number(process.argv[3] ?? 10_000);
const PODS_A_SECOND = 50;
/** Endpoints of one slice, the most that Kubernetes puts into one. */
const SLICE = 100;
const PATIENCE_MS = 600_000;
const SLUICE = ["--disable-sigusr1", "--max-semi-space-size=4", "src/cli/sluice.js"];
const NAMESPACE = "fleet";

const cleaning: (() => unknown)[] = [];
const ending = { after: (clean: () => unknown) => void cleaning.push(clean) };

/** The value below which this share of the values lies. */
function percentile(values: readonly number[], share: number): string {
  const sorted = [...values].sort((a, b) => a - b);
  return `${(sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN).toFixed(1)} ms`;
}

const both = (values: readonly number[]) =>
  `${percentile(values, 0.5)} / ${percentile(values, 0.99)}`;

const memoryOf = ({ process: { pid = 0 } }: Child) =>
  `${megabytes(privateBytes(pid))} / ${megabytes(residentBytes(pid))}`;

/** Sends requests over connections that are kept, as controllers of a cluster do. */
function callerOf(options: { readonly url: string; readonly ca: string; readonly token?: string }) {
  const agent = new Agent({ keepAlive: true, ca: options.ca });
  ending.after(() => agent.destroy());
  return (method: string, path: string, body: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = {
        "content-type": "application/json",
        authorization: `Bearer ${options.token}`,
      };
      const sent = request(new URL(path, options.url), { method, agent, headers }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      });
      sent.on("error", reject);
      sent.end(body);
    });
}

/** Starts an injector with certificates from outside. Resolves with it and with the addresses of its two ports. */
async function startInjector({ kubeconfig }: ControlPlane, folder: string) {
  const issued = authority(folder, "injector").issue("injector");
  const env = variables("injector", {
    SIDECAR_IMAGE: "sluice:1",
    WEBHOOK_ADDR: "127.0.0.1:0",
    WEBHOOK_CONFIGURATION: "",
    WEBHOOK_CERT_FILE: issued.certFile,
    WEBHOOK_KEY_FILE: issued.keyFile,
  });
  const injector = child(ending, process.execPath, [...SLUICE, "injector"], {
    env: { PATH: process.env["PATH"], ...env, KUBECONFIG: kubeconfig },
  });
  const addresses = () =>
    [...injector.err().matchAll(/listening on (127\.0\.0\.1:\d+)/g)].map(([, address]) => address);
  await injector.until("both ports listen", () => addresses().length === 2);
  const webhookFirst = /"component":"webhook".*listening on.*\n(?:.*\n)*.*listening on/.test(
    injector.err(),
  );
  const [first = "", second = ""] = addresses();
  const [webhook, main] = webhookFirst ? [first, second] : [second, first];
  return { injector, webhook, main, issued };
}

type Started = Awaited<ReturnType<typeof startInjector>>;

/** Stands between the API server and the injector, and measures how long each review takes. */
async function measuredWebhook({ webhook, issued }: Started, ca: string) {
  const times: number[] = [];
  const agent = new Agent({ keepAlive: true, ca });
  const proxy = createServer({ cert: issued.cert, key: issued.key }, (asked, answer) => {
    const parts: Buffer[] = [];
    asked.on("data", (part: Buffer) => parts.push(part));
    asked.on("end", () => {
      const body = Buffer.concat(parts);
      const headers = { "content-type": "application/json", "content-length": body.length };
      const began = performance.now();
      const path = asked.url ?? "";
      const sent = request(
        `https://${webhook}${path}`,
        { method: "POST", agent, headers },
        (reply) => {
          const whole: Buffer[] = [];
          reply.on("data", (part: Buffer) => whole.push(part));
          reply.on("end", () => {
            times.push(performance.now() - began);
            answer.writeHead(reply.statusCode ?? 0, { "content-type": "application/json" });
            answer.end(Buffer.concat(whole));
          });
        },
      );
      sent.on("error", () => answer.writeHead(502).end());
      sent.end(body);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  ending.after(() => {
    proxy.closeAllConnections();
    proxy.close();
    agent.destroy();
  });
  return { times, port: (proxy.address() as AddressInfo).port };
}

const pod = (at: number) =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `pod-${at}`, labels: { app: `application-${at % 20}` } },
    spec: {
      containers: [
        { name: "application", image: "application:1", ports: [{ containerPort: 9_000 }] },
      ],
    },
  });

async function measureInjection(plane: ControlPlane): Promise<void> {
  const { client } = plane;
  const folder = temporaryFolder(ending);
  const started = await startInjector(plane, folder);
  const { injector, main } = started;
  const ca = readFileSync(join(folder, "injector.crt"), "utf8");
  const { times, port } = await measuredWebhook(started, ca);
  const idle = memoryOf(injector);
  const cpu = () => cpuSeconds(injector.process.pid ?? 0);
  const labels = { "sluice-injection": "enabled" };
  await client.apply([
    {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: "sluice-injector" },
      webhooks: [
        {
          name: "sluice.injector.sluice.dev",
          admissionReviewVersions: ["v1"],
          sideEffects: "None",
          failurePolicy: "Fail",
          reinvocationPolicy: "IfNeeded",
          clientConfig: { url: `https://127.0.0.1:${port}/mutate-pod`, caBundle: btoa(ca) },
          namespaceSelector: { matchLabels: labels },
          rules: [
            { operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods"] },
          ],
        },
      ],
    },
    { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE, labels } },
  ]);
  await client.wait(
    { apiVersion: "v1", kind: "ServiceAccount", name: "default", namespace: NAMESPACE },
    "the namespace has its account",
    () => true,
  );
  const call = callerOf(client);
  const creations: number[] = [];
  const path = `/api/v1/namespaces/${NAMESPACE}/pods`;
  const spent = cpu();
  const began = performance.now();
  const create = async (at: number) => {
    const due = began + (at * 1_000) / PODS_A_SECOND;
    await sleep(Math.max(0, due - performance.now()));
    const status = await call("POST", path, pod(at));
    creations.push(performance.now() - due);
    assert.equal(status, 201, `pod ${at}`);
  };
  await Promise.all(Array.from({ length: PODS }, (_, at) => create(at)));
  const seconds = (performance.now() - began) / 1_000;
  const each = `${(((cpu() - spent) * 1_000) / PODS).toFixed(1)} ms`;
  const ref = { apiVersion: "v1", kind: "Pod", namespace: NAMESPACE };
  const pods = await client.list(ref);
  const injected = pods.filter(({ spec }) =>
    (spec.initContainers ?? []).some((each: { name: string }) => each.name === "sluice-agent"),
  );
  assert.equal(injected.length, PODS, "pods with a sidecar");
  await until(
    "all pods run",
    async () => (await client.list(ref)).every(({ status }) => status.phase === "Running"),
    PATIENCE_MS,
  );
  const page = await (await fetch(`http://${main}/metrics`)).text();
  const within = /^sluice_injector_review_duration_ms_bucket\{le="20"\} (\d+)$/m.exec(page)?.[1];
  const all = /^sluice_injector_review_duration_ms_count (\d+)$/m.exec(page)?.[1];
  printRow(`pods injected in ${seconds.toFixed(1)} s`, "all", `${injected.length} of ${PODS}`);
  printRow("a review, p50 / p99", "p99 ≤ 20 ms", both(times));
  printRow("processor time of the injector for each pod", "", each);
  printRow("within 20 ms by the injector's own histogram", "", `${within} of ${all}`);
  printRow("a pod's creation from when it was due, p50 / p99", "", both(creations));
  printRow("injector, private / resident, before and after", "", `${idle}, ${memoryOf(injector)}`);
}

const addressOf = (at: number) => `10.${32 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`;

function slice(at: number): string {
  const count = Math.min(SLICE, ENDPOINTS - at * SLICE);
  const endpoints = Array.from({ length: count }, (_, index) => {
    const number = at * SLICE + index;
    return {
      addresses: [addressOf(number)],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${number % 300}.example.internal`,
      targetRef: {
        kind: "Pod",
        name: `application-${at}-5d8f7c9b6d-${number}`,
        namespace: NAMESPACE,
        uid: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
      },
    };
  });
  return JSON.stringify({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `application-${at}`,
      labels: { "kubernetes.io/service-name": `application-${at}` },
    },
    addressType: "IPv4",
    ports: [{ name: "http", port: 9_000 }],
    endpoints,
  });
}

function heap(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function measureDiscovery(plane: ControlPlane): Promise<void> {
  const call = callerOf(plane.client);
  const path = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
  for (let at = 0; at * SLICE < ENDPOINTS; at++)
    assert.equal(await call("POST", path, slice(at)), 201, `slice ${at}`);
  const { config } = configOf("agent");
  const before = heap();
  const began = performance.now();
  const discovery = await openDiscovery({
    settings: config.kubernetes_client.http_client,
    proxy: config.client.proxy,
    env: { KUBECONFIG: plane.kubeconfig },
    followed: (fault) => assert.equal(fault, undefined),
    clock: realClock(),
    chance: seededChance(1),
    log: silentLog(),
  });
  await discovery.listed;
  const ms = performance.now() - began;
  const bytes = heap() - before;
  const known = Array.from({ length: ENDPOINTS }, (_, at) =>
    discovery.entities.byAddress(addressOf(at)),
  );
  assert.ok(
    known.every((services) => services.length > 0),
    "every endpoint has a service",
  );
  await discovery.close();
  const memory = `${megabytes(bytes)}${globalThis.gc === undefined ? " with garbage" : ""}`;
  printRow(`${ENDPOINTS} endpoints until all are known`, "", `${ms.toFixed(0)} ms`);
  printRow("heap that they take, the client of the API included", "", memory);
}

try {
  const plane = await startControlPlane(ending, { nodes: 2 });
  await measureInjection(plane);
  await measureDiscovery(plane);
} finally {
  for (const clean of cleaning.reverse()) await clean();
}
