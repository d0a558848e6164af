// Starts a real Kubernetes control plane: etcd, the API server, the controller manager, the scheduler, and kwok, which
// plays nodes and kubelets. Pods are objects that become Running; no container ever runs.

import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kube, kwok } from "../../../deploy/tools/go-tools.ts";
import { etcd } from "../../../deploy/tools/install.ts";
import { onPath } from "../../../deploy/tools/machine.ts";
import type { Ending } from "../ending.ts";
import { freePort } from "../free-port.ts";
import { until } from "../until.ts";
import { KubeClient } from "./client.ts";

/** Parts that can run besides etcd and the API server. */
export const CONTROL_PLANE_PARTS = ["controller-manager", "scheduler", "kwok"] as const;

export type ControlPlanePart = (typeof CONTROL_PLANE_PARTS)[number];

export interface ControlPlaneOptions {
  /** All by default. Without any, objects are only stored: there are no service accounts and no endpoints. */
  readonly parts?: readonly ControlPlanePart[];
  /** Nodes that kwok plays, one by default. Nodes that a test makes itself are left alone. */
  readonly nodes?: number;
  /** What each of them has, by default more than any test needs. */
  readonly capacity?: Readonly<Record<"cpu" | "memory", string>>;
  /** More flags of the API server. */
  readonly flags?: readonly string[];
}

export interface ControlPlane {
  /** Speaks for an administrator. */
  readonly client: KubeClient;
  /** Path of a kubeconfig for an administrator. */
  readonly kubeconfig: string;
  /** Folder with the log of each process, which is kept when the test ends. */
  readonly logs: string;
  /** Kills the API server and waits until it has ended. */
  kill(): Promise<void>;
  /** Starts it again, at the same address with the same certificate. */
  restart(): Promise<void>;
}

const LOGS = join(import.meta.dirname, "../../../.cache/kube-logs");
/** Folders of logs that stay. One run makes some ten clusters, the first of which serves until its end. */
const MAX_LOGS = 30;
/** Time for a start on a busy machine. */
const START_MS = 180_000;
const AMPLE: NonNullable<ControlPlaneOptions["capacity"]> = { cpu: "1000", memory: "4000Gi" };
/** Nodes with this annotation are played by kwok. */
const FAKE_NODE = "kwok.x-k8s.io/node";

/** Starts a control plane that runs until the test ends, and waits until it is ready. */
export async function startControlPlane(
  test: Ending,
  {
    parts = CONTROL_PLANE_PARTS,
    nodes = 1,
    capacity = AMPLE,
    flags = [],
  }: ControlPlaneOptions = {},
): Promise<ControlPlane> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-kube-"));
  const processes = new Processes(logFolder());
  test.after(async () => {
    await processes.end();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const token = randomBytes(16).toString("hex");
  writeKeys(folder, token);
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const bin = kube();
  processes.start("etcd", etcd()["3.5"], [
    `--data-dir=${folder}/etcd`,
    `--listen-client-urls=http://127.0.0.1:${etcdPort}`,
    `--advertise-client-urls=http://127.0.0.1:${etcdPort}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
    "--unsafe-no-fsync",
  ]);
  const startServer = async () => {
    processes.start("kube-apiserver", join(bin, "kube-apiserver"), [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      // Streamed lists need etcd 3.5.13. Without this flag the server offers them all the same, and clients ask in vain,
      // ever more seldom.
      "--feature-gates=WatchList=false",
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--cert-dir=${folder}/certs`,
      `--service-account-key-file=${folder}/accounts.pub`,
      `--service-account-signing-key-file=${folder}/accounts.key`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--token-auth-file=${folder}/tokens.csv`,
      "--authorization-mode=RBAC",
      "--service-cluster-ip-range=10.96.0.0/16",
      "--allow-privileged=true",
      // Webhooks behind a Service are called at its endpoints, because there is no proxy for its address.
      "--enable-aggregator-routing=true",
      ...flags,
    ]);
    await processes.until("kube-apiserver", async () => {
      const { status } = await clientOf(folder, port, token).call("GET", "/readyz");
      return status === 200;
    });
  };
  await startServer();
  const client = clientOf(folder, port, token);
  const kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, kubeconfigOf(client));
  if (parts.includes("controller-manager")) {
    processes.start("kube-controller-manager", join(bin, "kube-controller-manager"), [
      `--kubeconfig=${kubeconfig}`,
      `--service-account-private-key-file=${folder}/accounts.key`,
      `--root-ca-file=${folder}/certs/apiserver.crt`,
      "--leader-elect=false",
      "--secure-port=0",
    ]);
    await processes.until("kube-controller-manager", async () => {
      const account = "/api/v1/namespaces/default/serviceaccounts/default";
      return (await client.call("GET", account)).status === 200;
    });
  }
  if (parts.includes("scheduler")) {
    const own = [`--kubeconfig=${kubeconfig}`, "--leader-elect=false", "--secure-port=0"];
    processes.start("kube-scheduler", join(bin, "kube-scheduler"), own);
  }
  if (parts.includes("kwok")) {
    const { command, stages } = kwok();
    const options = join(folder, "kwok.yaml");
    writeFileSync(options, KWOK_OPTIONS);
    processes.start("kwok", command, [
      `--config=${stages}`,
      `--config=${options}`,
      `--kubeconfig=${kubeconfig}`,
      `--manage-nodes-with-annotation-selector=${FAKE_NODE}=fake`,
      "--cidr=10.244.0.0/16",
    ]);
    for (let at = 0; at < nodes; at++)
      await client.call("POST", "/api/v1/nodes", fakeNode(at, capacity));
    await processes.until("kwok", async () => {
      const all = await client.list({ apiVersion: "v1", kind: "Node" });
      return all.every(({ status }) => status?.phase === "Running");
    });
  }
  return {
    client,
    kubeconfig,
    logs: processes.logs,
    kill: () => processes.kill("kube-apiserver"),
    restart: startServer,
  };
}

/**
 * One pod at a time: kwok makes its pool of addresses with the first pod, and two first pods at once would each make
 * one and get the same address.
 */
const KWOK_OPTIONS = `
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 1
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  nodeLeaseDurationSeconds: 40
  podsOnNodeSyncParallelism: 4
`;

/** Variable with the path of a file that names the control plane all tests of a run share. */
export const SHARED_CLUSTER = "SLUICE_TEST_CLUSTER";

/**
 * The control plane that all files of a run of `make test-kube` share, or one of its own where a file runs alone. Tests
 * make namespaces of their own in it (`namespaceOf`) and never stop it.
 */
export async function sharedCluster(
  test: Ending,
): Promise<Pick<ControlPlane, "client" | "kubeconfig">> {
  const file = process.env[SHARED_CLUSTER];
  if (file === undefined) return startControlPlane(test);
  const { kubeconfig, url, ca, token } = JSON.parse(readFileSync(file, "utf8"));
  return { kubeconfig, client: new KubeClient({ url, ca, token }) };
}

/** Makes a namespace, which is deleted when the test ends. */
export async function namespaceOf(
  test: Ending,
  client: KubeClient,
  labels: Readonly<Record<string, string>> = {},
): Promise<string> {
  const name = `test-${randomBytes(5).toString("hex")}`;
  const ref = { apiVersion: "v1", kind: "Namespace" };
  await client.apply([{ ...ref, metadata: { name, labels } }]);
  test.after(() => client.delete({ ...ref, name }).catch(() => undefined));
  // Pods are refused until their namespace has its account.
  await client.wait(
    { apiVersion: "v1", kind: "ServiceAccount", name: "default", namespace: name },
    `namespace ${name} has its account`,
    () => true,
  );
  return name;
}

/** Text of a kubeconfig that speaks for whom the client speaks. */
export function kubeconfigOf({ url, ca, token }: KubeClient): string {
  const cluster = { server: url, "certificate-authority-data": btoa(ca) };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster }],
    users: [{ name: "test", user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    "current-context": "test",
  });
}

function clientOf(folder: string, port: number, token: string): KubeClient {
  let ca = "";
  try {
    ca = readFileSync(join(folder, "certs/apiserver.crt"), "utf8");
  } catch {
    // The server has not made it yet.
  }
  return new KubeClient({ url: `https://127.0.0.1:${port}`, ca, token });
}

function writeKeys(folder: string, token: string): void {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  mkdirSync(join(folder, "certs"));
  writeFileSync(join(folder, "accounts.key"), privateKey);
  writeFileSync(join(folder, "accounts.pub"), publicKey);
  writeFileSync(join(folder, "tokens.csv"), `${token},admin,admin,"system:masters"\n`);
}

function fakeNode(at: number, capacity: NonNullable<ControlPlaneOptions["capacity"]>): object {
  const name = `kwok-${at}`;
  const resources = { ...capacity, pods: "5000" };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      annotations: { [FAKE_NODE]: "fake" },
      labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" },
    },
    status: { allocatable: resources, capacity: resources },
  };
}

/** A new folder for logs. Those of the oldest clusters are removed. */
function logFolder(): string {
  mkdirSync(LOGS, { recursive: true });
  const time = new Date().toISOString().replaceAll(":", "-");
  const folder = mkdtempSync(join(LOGS, `${time}-`));
  for (const old of readdirSync(LOGS).sort().slice(0, -MAX_LOGS)) {
    rmSync(join(LOGS, old), { recursive: true, force: true });
  }
  return folder;
}

/** The processes of a control plane, which end with this process, however it ends. */
class Processes {
  readonly logs: string;
  readonly #running = new Map<string, { child: ChildProcess; ended: Promise<unknown> }>();

  constructor(logs: string) {
    this.logs = logs;
  }

  start(name: string, command: string, args: readonly string[]): void {
    const log = openSync(this.#logOf(name), "a");
    const guarded = onPath("setpriv") ? ["setpriv", "--pdeathsig", "KILL", "--"] : [];
    const [program = command, ...all] = [...guarded, command, ...args];
    const child = spawn(program, all, { stdio: ["ignore", log, log] });
    closeSync(log);
    const ended = new Promise((resolve) => {
      child.once("error", resolve);
      child.once("exit", resolve);
    });
    this.#running.set(name, { child, ended });
  }

  /** Waits until a process answers. Fails with the end of its log. */
  async until(name: string, answers: () => Promise<boolean>): Promise<void> {
    const holds = () => {
      const child = this.#running.get(name)?.child;
      if (child?.exitCode !== null || child.signalCode !== null) throw new Error("it has ended");
      return answers().catch(() => false);
    };
    try {
      await until(`${name} is ready`, holds, START_MS);
    } catch (cause) {
      const tail = readFileSync(this.#logOf(name), "utf8").slice(-4_000);
      throw new Error(`${name}: ${String(cause)}\n${tail}`, { cause });
    }
  }

  async kill(name: string): Promise<void> {
    const running = this.#running.get(name);
    running?.child.kill("SIGKILL");
    await running?.ended;
  }

  async end(): Promise<void> {
    for (const name of [...this.#running.keys()].reverse()) await this.kill(name);
  }

  #logOf(name: string): string {
    return join(this.logs, `${name}.log`);
  }
}
