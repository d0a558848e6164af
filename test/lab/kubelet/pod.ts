// One pod that lives: its network and volumes are made, init containers and sidecars start in order, then all others; what
// becomes of them is reported; at the end sidecars go last, and nothing is left.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { KubeClient } from "../../kit/kube/client.ts";
import { Container, now } from "./container/container.ts";
import { environmentOf, expanded, type PodFacts } from "./container/environment.ts";
import { type Images, imageOf } from "./container/images.ts";
import { KnownObjects } from "./container/known.ts";
import { ContainerProcess, type Mount } from "./container/process.ts";
import { Volumes } from "./container/volumes.ts";
import { DOMAIN, resolverOf } from "./node/names.ts";
import { NODE_ADDRESS, type NodeNetwork, type PodNetwork } from "./node/network.ts";
import type { ContainerSpec, PodObject } from "./objects.ts";
import { isSidecar, statusOf, summaryOf } from "./status.ts";

export interface PodOptions {
  readonly client: KubeClient;
  readonly network: NodeNetwork;
  readonly images: Images;
  /** Environment that every container has. */
  readonly env: Readonly<Record<string, string>>;
  /** Folder of logs. */
  readonly logs: string;
}

/** Everything below this folder is gone with the machine. */
const PODS = "/run/pods";
const RETRY_MS = 500;
const DEFAULT_GRACE_SECONDS = 30;
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export class LivingPod {
  readonly #options: PodOptions;
  readonly #known: KnownObjects;
  readonly #folder: string;
  readonly #startTime = now();
  readonly #ending = new AbortController();
  readonly #init: readonly Container[];
  readonly #main: readonly Container[];
  readonly #living: Promise<void>;
  /** The pod as the API has it. */
  #object: PodObject;
  #network: PodNetwork | undefined;
  #volumes: Volumes | undefined;
  #end: Promise<void> | undefined;
  #isChanged = false;
  #reporting: Promise<void> | undefined;

  constructor(object: PodObject, options: PodOptions) {
    this.#object = object;
    this.#options = options;
    this.#known = new KnownObjects(options.client);
    this.#folder = join(PODS, object.metadata.uid);
    mkdirSync(this.#folder, { recursive: true });
    const { restartPolicy = "Always", initContainers = [], containers } = object.spec;
    this.#init = initContainers.map((spec) => {
      const again = restartPolicy === "Never" ? "Never" : "OnFailure";
      return this.#container(spec, spec.restartPolicy ?? again);
    });
    this.#main = containers.map((spec) => this.#container(spec, restartPolicy));
    this.#living = this.#live().catch((error: unknown) => this.#log("kubelet", `${error}\n`));
  }

  get name(): string {
    const { namespace, name } = this.#object.metadata;
    return `${namespace}/${name}`;
  }

  /** Resolves when the pod has ended and nothing of it is left; undefined while nobody has ended it. */
  get ended(): Promise<void> | undefined {
    return this.#end;
  }

  /** A container by its name; the first of the application's without one. */
  container(name?: string): Container {
    const all = [...this.#main, ...this.#init];
    const found = all.find(({ spec }) => name === undefined || spec.name === name);
    if (found === undefined) throw new Error(`pod ${this.name} has no container ${name}`);
    return found;
  }

  logOf(container: string): string {
    const { namespace, name } = this.#object.metadata;
    return join(this.#options.logs, `${namespace}.${name}.${container}.log`);
  }

  /** Takes the pod as the API has it now. */
  update(object: PodObject): void {
    this.#object = object;
    if (object.metadata.deletionTimestamp !== undefined) {
      const { deletionGracePeriodSeconds = DEFAULT_GRACE_SECONDS } = object.metadata;
      this.#end ??= this.#endGracefully(deletionGracePeriodSeconds);
    } else void this.#volumes?.fill().catch((error) => this.#log("kubelet", `${error}\n`));
    this.#report();
  }

  /** Ends the pod at once. */
  cut(): Promise<void> {
    this.#end ??= this.#cut();
    return this.#end;
  }

  async #live(): Promise<void> {
    const { signal } = this.#ending;
    this.#network = await this.#options.network.addPod();
    const volumes = new Volumes(join(this.#folder, "volumes"), this.#facts(), this.#known);
    this.#volumes = volumes;
    while (!signal.aborted && !(await this.#filled(volumes))) await sleep(RETRY_MS);
    this.#report();
    for (const container of this.#init) {
      if (signal.aborted) return;
      void container.run();
      if (isSidecar(container)) await container.started();
      else {
        await container.finished;
        // Only where the pod may not try again.
        if (container.state.kind !== "terminated" || container.state.exitCode !== 0) return;
      }
    }
    if (signal.aborted) return;
    for (const container of this.#main) void container.run();
    await Promise.all(this.#main.map(({ finished }) => finished));
    // A pod whose own containers have ended for good needs its sidecars no longer.
    if (!signal.aborted) await this.#endSidecars(DEFAULT_GRACE_SECONDS, Promise.resolve());
  }

  async #filled(volumes: Volumes): Promise<boolean> {
    try {
      await volumes.fill();
      return true;
    } catch (error) {
      this.#log("kubelet", `${error}\n`);
      return false;
    }
  }

  #container(spec: ContainerSpec, restarts: "Always" | "OnFailure" | "Never"): Container {
    return new Container({
      spec,
      restarts,
      start: () => this.#start(spec),
      address: () => this.#network?.address ?? "",
      changed: () => this.#report(),
    });
  }

  #facts(): PodFacts {
    return { pod: this.#object, podIP: this.#network?.address ?? "", hostIP: NODE_ADDRESS };
  }

  async #start(spec: ContainerSpec): Promise<ContainerProcess> {
    const network = this.#network;
    if (network === undefined || this.#volumes === undefined) throw new Error("no network yet");
    if (spec.lifecycle?.postStart !== undefined)
      throw new Error("this kubelet does not know postStart");
    const image = imageOf(this.#options.images, spec.image);
    const hostname = this.#object.spec.hostname ?? this.#object.metadata.name;
    const first = { PATH: DEFAULT_PATH, ...image.env, HOSTNAME: hostname, ...this.#options.env };
    const env = await environmentOf(spec, this.#facts(), this.#known, first);
    const entrypoint = spec.command ?? image.entrypoint;
    const rest = spec.args ?? (spec.command === undefined ? (image.command ?? []) : []);
    const command = [...entrypoint, ...rest].map((text) => expanded(text, env));
    const pod = this.#object.spec.securityContext ?? {};
    const own = spec.securityContext ?? {};
    const user = own.runAsUser ?? pod.runAsUser ?? image.user ?? 0;
    const group = own.runAsGroup ?? pod.runAsGroup ?? (user === 0 ? 0 : user);
    return new ContainerProcess({
      command,
      env,
      user,
      group,
      groups: pod.fsGroup === undefined ? [group] : [group, pod.fsGroup],
      workingDir: spec.workingDir ?? image.workingDir ?? "/",
      mounts: [...this.#systemFiles(network), ...this.#mountsOf(spec, image.files)],
      readOnlyRoot: own.readOnlyRootFilesystem ?? false,
      network: network.path,
      log: this.logOf(spec.name),
    });
  }

  #mountsOf(
    { volumeMounts = [] }: ContainerSpec,
    files: Readonly<Record<string, string>>,
  ): readonly Mount[] {
    const volumes = volumeMounts.map(({ name, mountPath, readOnly = false, subPath = "" }) => ({
      from: join(this.#volumes?.pathOf(name) ?? "", subPath),
      to: mountPath,
      readOnly,
    }));
    const ofImage = Object.entries(files).map(([to, from]) => ({ from, to, readOnly: true }));
    return [...ofImage, ...volumes];
  }

  /** Files of /etc by which names become addresses. */
  #systemFiles({ address }: PodNetwork): readonly Mount[] {
    const { name, namespace } = this.#object.metadata;
    const texts = {
      "resolv.conf": resolverOf(namespace),
      hosts: `127.0.0.1 localhost\n${address} ${name} ${name}.${namespace}.pod.${DOMAIN}\n`,
      "nsswitch.conf": "hosts: files dns\n",
    };
    return Object.entries(texts).map(([file, text]) => {
      const from = join(this.#folder, file);
      writeFileSync(from, text);
      return { from, to: `/etc/${file}`, readOnly: true };
    });
  }

  /** Sidecars end in reverse order, after all others; the hooks of all of them run at once. */
  async #endGracefully(graceSeconds: number): Promise<void> {
    this.#ending.abort();
    const others = [...this.#main, ...this.#init.filter((each) => !isSidecar(each))];
    const ending = others.map((each) => each.end(graceSeconds, Promise.resolve()));
    await this.#endSidecars(graceSeconds, Promise.all(ending));
    await Promise.all(ending);
    await this.#remove();
  }

  async #endSidecars(graceSeconds: number, turn: Promise<unknown>): Promise<void> {
    let next = turn;
    for (const each of this.#init.filter(isSidecar).reverse()) next = each.end(graceSeconds, next);
    await next;
  }

  async #cut(): Promise<void> {
    this.#ending.abort();
    await Promise.all([...this.#main, ...this.#init].map((each) => each.cut()));
    await this.#remove();
  }

  async #remove(): Promise<void> {
    await this.#living;
    this.#report();
    await this.#reporting;
    if (this.#network !== undefined) await this.#options.network.removePod(this.#network);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Reports the status, unless the API has it already. One report is on its way at a time. */
  #report(): void {
    this.#isChanged = true;
    this.#reporting ??= Promise.resolve()
      .then(() => this.#send())
      // The API server is away: the next update of the pod, which needs it too, reports again.
      .catch(() => undefined)
      .finally(() => {
        this.#reporting = undefined;
      });
  }

  async #send(): Promise<void> {
    while (this.#isChanged) {
      this.#isChanged = false;
      const { metadata, status: known } = this.#object;
      const parts = {
        init: this.#init,
        main: this.#main,
        address: this.#network?.address,
        startTime: this.#startTime,
      };
      const status = statusOf(this.#object, parts, known?.conditions ?? []);
      if (summaryOf(status) === summaryOf(known)) return;
      const { name, namespace, uid } = metadata;
      const ref = { apiVersion: "v1", kind: "Pod", name, namespace };
      // Another pod of this name is left alone.
      const merged = await this.#options.client.merge(ref, { metadata: { uid }, status }, "status");
      this.#object = merged as PodObject;
    }
  }

  #log(name: string, text: string): void {
    writeFileSync(this.logOf(name), text, { flag: "a" });
  }
}
