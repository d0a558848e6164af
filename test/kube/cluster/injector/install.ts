// Installs the injector beside a real API server, from the objects of the charts, as processes of this machine.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import type { Ending } from "../../../kit/ending.ts";
import { folderOf } from "../../../kit/folder.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../../kit/kube/control-plane.ts";
import { objectsIn, type Rendered } from "../../../kit/kube/helm.ts";
import { variables } from "../../../kit/process.ts";
import { processContext } from "../../../kit/process-context.ts";
import { memoryLog } from "../../../kit/sluice/log.ts";
import { realClock } from "../../../kit/sluice/port.ts";

export const { client } = await sharedCluster({ after });

const ADMISSION = "admissionregistration.k8s.io/v1";
/** Conditions wait for several programs on a busy machine. */
export const PATIENCE_MS = 120_000;

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly [string];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Name of the Secret that sidecars use. Injectors of other tests see the namespaces of all. */
export const secretOf = (home: string) => `${home}-etcd`;

/**
 * The objects of sluice-controller that are about the injector, of which the Deployment is left out, and those of sluice-agent
 * that are about its Secrets.
 */
export async function chartOf(home: string, name: string): Promise<readonly Rendered[]> {
  const etcd = { endpoints: ["http://etcd:2379"] };
  const prometheus = { address: "http://prometheus:9090" };
  const values = { controller: { config: { etcd, prometheus } }, injector: { name } };
  const all = await objectsIn("sluice-controller", values, ["--namespace", home]);
  const unwanted = ["Deployment", "PodDisruptionBudget"];
  const password = { name: secretOf(home), key: "password" };
  const agent = {
    installationMode: "KUBERNETES_SIDECAR",
    agent: { config: { etcd: { ...etcd, username: "agent" } }, secrets: { etcd: { password } } },
    sidecars: { injectorAccount: name },
  };
  const of = await objectsIn("sluice-agent", agent, [
    "--namespace",
    home,
    "--api-versions",
    `${ADMISSION}/ValidatingAdmissionPolicy`,
  ]);
  return [
    ...all.filter(
      ({ kind, metadata }) => metadata.name.startsWith(name) && !unwanted.includes(kind),
    ),
    ...of.filter(({ metadata }) => metadata.name.endsWith("-secrets")),
  ];
}

/** The rules of the charts. */
interface Rights {
  readonly cluster: readonly Rule[];
  readonly home: readonly Rule[];
  /** For copies of Secrets. */
  readonly secrets: readonly Rule[];
}

export const PARTS = ["cluster", "home", "secrets"] as const;

/** The part that the rules of an object are. */
function partOf({ kind, metadata }: Rendered): keyof Rights | undefined {
  if (kind === "Role") return "home";
  if (kind !== "ClusterRole") return undefined;
  return metadata.name.endsWith("-secrets") ? "secrets" : "cluster";
}

export function rightsIn(objects: readonly Rendered[]): Rights {
  const rulesOf = (wanted: keyof Rights): readonly Rule[] =>
    objects.find((object) => partOf(object) === wanted)?.["rules"] ?? [];
  return { cluster: rulesOf("cluster"), home: rulesOf("home"), secrets: rulesOf("secrets") };
}

/** An address of this machine that is not loopback, which endpoints may not have. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  assert.ok(found, "an address of this machine");
  return found.address;
}

/** Installs the objects of the chart in a namespace of its own, and starts injectors as processes of this machine. */
export async function install(t: Ending, change: (rights: Rights) => Rights = (rights) => rights) {
  const home = await namespaceOf(t, client);
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
  };
  const name = `injector-${home}`;
  const objects = await chartOf(home, name);
  const rights = change(rightsIn(objects));
  // Only the namespaces of this test.
  const own = { key: "test-of", operator: "In", values: [home] };
  const changed = objects.map((object) => {
    const part = partOf(object);
    if (part !== undefined) return { ...object, rules: rights[part] };
    if (object.kind !== configuration.kind) return object;
    const webhooks = object["webhooks"].map((each: Rendered) => ({
      ...each,
      namespaceSelector: {
        matchExpressions: [...each["namespaceSelector"].matchExpressions, own],
      },
    }));
    return { ...object, webhooks };
  });
  await client.apply(changed, home);
  t.after(async () => {
    await client.delete({ ...configuration, name });
    const isEverywhere = ({ kind }: Rendered) => /^(Cluster|Validating)/.test(kind);
    for (const { apiVersion, kind, metadata } of changed.filter(isEverywhere))
      await client.delete({ apiVersion, kind, name: metadata.name });
  });
  const settings = {
    SVC_INJECTOR_SIDECAR_IMAGE: "sluice:1",
    SVC_INJECTOR_SIDECAR_SECRETS: `[etcd.password=${secretOf(home)}/password]`,
    SVC_AGENT_ETCD_USERNAME: "agent",
  };
  const original = secret(secretOf(home), "present");
  await client.apply([original], home);
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "sluice-sidecars" } };
  await client.apply([{ ...map, data: settings }], home);
  const account = client.as(await client.tokenOf(home, name));
  const config = JSON.parse(kubeconfigOf(account));
  config.contexts[0].context.namespace = home;
  const kubeconfig = join(folderOf(t), "kubeconfig");
  writeFileSync(kubeconfig, JSON.stringify(config));
  const running = new Map<number, string>();
  const publishEndpoints = () =>
    client.apply(
      [...Array(2).keys()].map((at) => ({
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `injector-${at}`,
          labels: { "kubernetes.io/service-name": name },
        },
        addressType: "IPv4",
        endpoints: running.has(at)
          ? [{ addresses: [ownAddress()], conditions: { ready: true } }]
          : [],
        ports: [{ name: "webhook", port: Number(running.get(at)?.split(":").at(-1) ?? 9) }],
      })),
      home,
    );
  /** Starts one of two replicas. */
  const start = async (at = 0, env: Readonly<Record<string, string>> = {}) => {
    const scope = new Scope();
    const stop = async () => {
      running.delete(at);
      await scope.close("cut");
    };
    t.after(stop);
    const folder = folderOf(t);
    const own = variables("injector", {
      SIDECAR_CONFIG_MAP: "sluice-sidecars",
      WEBHOOK_ADDR: "0.0.0.0:0",
      WEBHOOK_CONFIGURATION: name,
      WEBHOOK_SECRET: `${name}-tls`,
      WEBHOOK_SERVICE: name,
      MISSED_PODS_INTERVAL: "1s",
    });
    const log = memoryLog();
    const { main, webhook } = await startInjectorProcess({
      config: loadInjector({ env: { ...own, ...env }, configPath: folder, dotenvDir: folder }),
      context: processContext(scope, { clock: realClock, env: { KUBECONFIG: kubeconfig } }),
      chance: seededChance(at),
      log: { ...log, close: async () => undefined },
    });
    webhook.catch(() => undefined);
    const get = async (path: string) => (await fetch(`http://${main.address}${path}`)).text();
    const serve = async () => {
      running.set(at, (await webhook).address);
      await publishEndpoints();
      await client.wait({ ...configuration, name }, "the authority is published", ({ webhooks }) =>
        webhooks.every(
          (each: { clientConfig: { caBundle?: string } }) => each.clientConfig.caBundle,
        ),
      );
    };
    return { get, log, stop, serve };
  };
  const labelled = (labels: Readonly<Record<string, string>> = { "sluice-injection": "enabled" }) =>
    namespaceOf(t, client, { "test-of": home, ...labels });
  return { home, name, start, labelled, account };
}

export function secret(
  name: string,
  password: string,
  labels: Readonly<Record<string, string>> = {},
) {
  const metadata = { name, labels };
  return { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", stringData: { password } };
}

/** A copy that is old, a namespace without one, and a copy that nothing needs any more: an injector does all that it may. */
export async function copies(
  home: string,
  labelled: (labels?: Readonly<Record<string, string>>) => Promise<string>,
) {
  const [old, none, former] = [await labelled(), await labelled(), await labelled({})];
  const copy = secret(secretOf(home), "past", { "sluice/copy-of": home });
  for (const namespace of [old, former]) await client.apply([copy], namespace);
  const passwordIn = async (namespace: string) => {
    const ref = { apiVersion: "v1", kind: "Secret", name: secretOf(home), namespace };
    return atob((await client.get(ref))?.["data"].password ?? "");
  };
  return async () =>
    (await passwordIn(old)) === "present" &&
    (await passwordIn(none)) === "present" &&
    (await passwordIn(former)) === "";
}

export const POD_KIND = { apiVersion: "v1", kind: "Pod" };

export const pod = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  ...POD_KIND,
  metadata: { name, annotations },
  spec: { containers: [{ name: "app", image: "none", ports: [{ containerPort: 9_000 }] }] },
});

export async function create(namespace: string, object: object, query = "") {
  return client.call("POST", `/api/v1/namespaces/${namespace}/pods${query}`, object);
}

// biome-ignore lint/suspicious/noExplicitAny: an object of the API
export const hasAgent = ({ spec }: any) =>
  (spec?.initContainers ?? []).some((each: { name: string }) => each.name === "sluice-agent");
