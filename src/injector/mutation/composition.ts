// Adds the containers of injection to those of one pod, and finds what would not work.

import {
  type Container,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Pod,
  text,
} from "../pod.ts";
import type { ClusterAbilities, InjectionSettings, ResourceBound, Resources } from "../settings.ts";
import type { PodOptions } from "./annotations.ts";
import { amountOf } from "./annotations.ts";
import { boundWarnings } from "./bounds.ts";
import { drainingEnvoy, ENVOY_NAME, type EnvoyTraffic, envoyContainer, TRAFFIC } from "./envoy.ts";
import { mergeContainer, mergePullSecrets, mergeVolumes } from "./merge.ts";
import { agentPorts, everyContainer, isOurs, portsOf, probedPorts } from "./ports.ts";
import { type ProbeListener, redirectToListener } from "./probes.ts";
import { AGENT_NAMES, agentContainer, sleepHook, volumesOf } from "./sidecar.ts";

/** Proxies of meshes, which already receive the application's requests. */
const MESH_PROXIES: readonly string[] = ["istio-proxy", "linkerd-proxy", "consul-dataplane"];
/** The default of Kubernetes for `terminationGracePeriodSeconds`. */
const DEFAULT_GRACE_SECONDS = 30;
/** Reserve for the transitions between the steps of a shutdown. */
const MARGIN_SECONDS = 3;
/** Without native sidecars: how long Envoy runs after its clients have left, and how much longer the agent runs. */
const ENVOY_OUTLIVES_SECONDS = 5;
const AGENT_OUTLIVES_SECONDS = 2;

const MOVES = "; the annotation sluice/port moves the agent";

export interface CompositionInput {
  readonly pod: Pod;
  readonly settings: InjectionSettings;
  readonly abilities: ClusterAbilities;
  readonly bounds?: readonly ResourceBound[];
}

export class Composition {
  readonly #input: CompositionInput;
  readonly #options: PodOptions;
  readonly #faults: string[] = [];
  readonly #warnings: string[] = [];
  readonly #ports: ReturnType<typeof agentPorts>;
  /** The application's port behind Envoy; undefined without Envoy. */
  readonly #applicationPort: number | undefined;
  #init: readonly Container[];
  #main: readonly Container[];

  constructor(input: CompositionInput, options: PodOptions) {
    const { pod } = input;
    this.#input = input;
    this.#options = options;
    this.#warnings.push(...options.warnings);
    this.#init = pod.initContainers;
    this.#main = pod.containers;
    this.#applicationPort = this.#findApplicationPort();
    const { settings } = input;
    const chosen = { main: options.port, application: this.#applicationPort };
    this.#ports = agentPorts(pod, settings, chosen);
    this.#findClashes();
    this.#place(AGENT_NAMES, 0, (isNative) => this.#agent(isNative));
    this.#addEnvoy();
    this.#checkEnd();
    const added = [...this.#init, ...this.#main].filter(isOurs);
    this.#warnings.push(...boundWarnings(added, input.bounds ?? []));
  }

  /** Reasons why the pod cannot work as it is. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  get warnings(): readonly string[] {
    return this.#warnings;
  }

  /** The pod with all containers. */
  whole(): JsonObject {
    const { pod, settings } = this.#input;
    const { whole } = pod;
    const spec = isObject(whole["spec"]) ? whole["spec"] : {};
    const volumes = mergeVolumes(pod, volumesOf(settings.sidecar));
    const pulls = mergePullSecrets(listAt(spec["imagePullSecrets"]), settings.pullSecrets);
    return {
      ...whole,
      spec: {
        ...spec,
        ...(this.#init.length === 0 ? {} : { initContainers: this.#init }),
        containers: this.#main,
        volumes,
        ...(pulls.length === 0 ? {} : { imagePullSecrets: pulls }),
      },
    };
  }

  #agent(isNative: boolean): Container {
    const { settings } = this.#input;
    return agentContainer({
      settings: settings.sidecar,
      ports: this.#ports,
      ipFamily: settings.ipFamily,
      agentGroup: this.#options.agentGroup,
      resources: combined(settings.sidecar.resources, this.#options.resources),
      preStop: this.#endOfAgent(isNative),
    });
  }

  /** Native sidecars end after the application anyway; their hooks run when the pod is told to end. */
  #endOfAgent(isNative: boolean): JsonObject | undefined {
    const seconds = isNative ? 0 : this.#envoySeconds + AGENT_OUTLIVES_SECONDS;
    if (this.#applicationPort !== undefined)
      return drainingEnvoy(this.#input.settings.envoy.adminPort, seconds);
    const program = ["node", "-e", `setTimeout(() => {}, ${seconds * 1_000})`];
    return isNative ? undefined : this.#wait(seconds, program);
  }

  #addEnvoy(): void {
    const { settings, abilities } = this.#input;
    const application = this.#applicationPort;
    if (application === undefined) return;
    const ports = {
      envoy: settings.envoy.port,
      admin: settings.envoy.adminPort,
      agent: this.#ports.main,
      application,
      probes: this.#moveProbes(application),
    };
    const resources = combined(settings.envoy.resources, this.#options.envoyResources);
    const agentAt = this.#init.findIndex(({ name }) => AGENT_NAMES.includes(name));
    this.#place([ENVOY_NAME], agentAt + 1, (isNative) =>
      envoyContainer(
        { ...settings.envoy, resources },
        ports,
        settings.ipFamily,
        this.#traffic(),
        isNative ? undefined : this.#wait(this.#envoySeconds, ["sleep", `${this.#envoySeconds}`]),
      ),
    );
    for (const { name, port } of this.#applicationPorts()) {
      this.#warnings.push(
        `port ${port} of container ${name} bypasses Envoy: let targetPort of the Service be ${ports.envoy}, and the application listen on 127.0.0.1`,
      );
    }
    // The application keeps running until all clients know that the pod ends.
    const seconds = settings.envoy.applicationSleepSeconds;
    if (seconds === 0) return;
    const slept = this.#main.map((container) =>
      isOurs(container) ? container : withSleep(container, seconds),
    );
    if (abilities.sleepAction) this.#main = slept;
    else
      for (const [at, container] of this.#main.entries())
        if (slept[at] !== container)
          this.#warnings.push(
            `container ${container.name} loses requests when its pod ends, because this cluster cannot delay its end (Kubernetes 1.30): give it a preStop that sleeps ${seconds} s`,
          );
  }

  /** Redirects the kubelet's probes of the application to Envoy. Undefined if there are none. */
  #moveProbes(application: number): ProbeListener | undefined {
    const own = [...this.#init, ...this.#main].find(({ name }) => name === ENVOY_NAME);
    // An Envoy with its own configuration, or from an earlier injection, has no listener for these probes.
    const isConfigured = own !== undefined && [own["args"], own["command"]].some(Array.isArray);
    if (this.#options.probes === false || isConfigured) return undefined;
    const port = this.#ports.probes;
    const requests: ProbeListener["requests"][number][] = [];
    const move = (container: Container) => {
      if (isOurs(container) || MESH_PROXIES.includes(container.name)) return container;
      const moved = redirectToListener(container, application, port);
      requests.push(...moved.requests);
      if (moved.requests.some(({ kind }) => kind === "HTTPS"))
        this.#warnings.push(
          `a probe of container ${container.name} speaks TLS to port ${application}, to which Envoy speaks cleartext: requests fail unless the application understands both`,
        );
      return moved.container;
    };
    this.#init = this.#init.map(move);
    this.#main = this.#main.map(move);
    return requests.length === 0 ? undefined : { port, requests };
  }

  #traffic(): EnvoyTraffic {
    const { clientBaggage, escapedSlashes, upgrades, idleSeconds, bodyBytes } = this.#options;
    return {
      clientBaggage: clientBaggage ?? this.#input.settings.envoy.clientBaggage,
      escapedSlashes: escapedSlashes ?? TRAFFIC.escapedSlashes,
      upgrades: upgrades ?? TRAFFIC.upgrades,
      idleSeconds: idleSeconds ?? TRAFFIC.idleSeconds,
      bodyBytes: bodyBytes ?? TRAFFIC.bodyBytes,
    };
  }

  /** Merges a container into one that the pod has under one of these names, or adds it, if possible as a native sidecar. */
  #place(names: readonly string[], at: number, make: (isNative: boolean) => Container): void {
    const { nativeSidecars } = this.#input.abilities;
    const merged = (containers: readonly Container[], isInit: boolean) => {
      const own = names
        .map((name) => containers.findIndex((each) => each.name === name))
        .find((found) => found !== -1);
      if (own === undefined) return undefined;
      const isNative = isInit && nativeSidecars;
      return containers.map((each, here) =>
        here === own ? mergeContainer(each, native(make(isNative), isNative)) : each,
      );
    };
    const init = merged(this.#init, true);
    const main = merged(this.#main, false);
    if (init !== undefined) this.#init = init;
    else if (main !== undefined) this.#main = main;
    else if (nativeSidecars) this.#init = this.#init.toSpliced(at, 0, native(make(true), true));
    else this.#main = [...this.#main, make(false)];
  }

  /** How long Envoy runs after the end of the pod began, without native sidecars. */
  get #envoySeconds(): number {
    return this.#input.settings.envoy.applicationSleepSeconds + ENVOY_OUTLIVES_SECONDS;
  }

  #wait(seconds: number, program: readonly string[]): JsonObject {
    return sleepHook({ seconds, sleepAction: this.#input.abilities.sleepAction, program });
  }

  #findApplicationPort(): number | undefined {
    const { pod, settings } = this.#input;
    const { envoy, applicationPort } = this.#options;
    if (!(envoy ?? settings.envoy.inject)) return undefined;
    const mesh = everyContainer(pod).find(({ name }) => MESH_PROXIES.includes(name));
    if (mesh !== undefined && envoy === undefined) {
      this.#warnings.push(`no Envoy was added: the pod has ${mesh.name} before its application`);
      return undefined;
    }
    const proxy = mesh?.name ?? (asksForIstio(pod) ? "istio-proxy" : undefined);
    if (proxy !== undefined)
      this.#warnings.push(
        `both ${proxy} and the injected Envoy stand before the application: without sluice/envoy-inject, the mesh's proxy can ask the agent (deploy/recipes)`,
      );
    const port = applicationPort ?? this.#applicationPorts()[0]?.port;
    if (port !== undefined) return port;
    const missing = "sluice/application-port: wanted a port, because no container declares one";
    if (envoy === true) this.#faults.push(`${missing}, got nothing`);
    else this.#warnings.push(`no Envoy was added: ${missing}`);
    return undefined;
  }

  /** The TCP ports that the application's containers declare. */
  #applicationPorts(): readonly { readonly name: string; readonly port: number }[] {
    return this.#input.pod.containers
      .filter((container) => !isOurs(container) && !MESH_PROXIES.includes(container.name))
      .flatMap((container) => portsOf(container));
  }

  /** Finds ports with two listeners: one of the containers could not start. */
  #findClashes(): void {
    const { pod, settings } = this.#input;
    const { sidecar, envoy } = settings;
    const wanted = new Map<number, string>([[this.#ports.main, "the agent"]]);
    const add = (port: number, who: string) => {
      const other = wanted.get(port);
      if (other === undefined) wanted.set(port, who);
      else this.#faults.push(`port ${port}: ${who} and ${other} cannot both listen on it`);
    };
    for (const { containerPort } of sidecar.otherPorts) add(containerPort, "the agent's telemetry");
    if (this.#applicationPort !== undefined) {
      add(envoy.port, "Envoy");
      add(envoy.adminPort, "the administration of Envoy");
      add(this.#applicationPort, "the application");
      wanted.delete(this.#applicationPort);
    }
    for (const container of everyContainer(pod)) {
      if (isOurs(container)) continue;
      const declared = portsOf(container);
      for (const { name, port } of declared) {
        const who = wanted.get(port);
        if (who === undefined) continue;
        const hint = port === this.#ports.main ? MOVES : "";
        this.#faults.push(
          `port ${port}: ${who} and container ${name} cannot both listen on it${hint}`,
        );
      }
      if (!declared.some(({ port }) => port === this.#ports.main)) this.#findUndeclared(container);
    }
  }

  /** Finds containers that listen on the agent's port without declaring it, by their probes and variables. */
  #findUndeclared(container: Container): void {
    const port = this.#ports.main;
    const { name } = container;
    if (probedPorts(container).includes(port)) {
      this.#faults.push(
        `port ${port}: the agent and container ${name}, which a probe asks there, cannot both listen on it${MOVES}`,
      );
      return;
    }
    const variable = listAt(container["env"]).find(
      (each) => /^([A-Z0-9_]*_)?PORT$/.test(text(each["name"])) && each["value"] === `${port}`,
    );
    if (variable === undefined) return;
    this.#warnings.push(
      `variable ${text(variable["name"])} of container ${name} is ${port}, the agent's port: where the container listens there, it cannot start${MOVES}`,
    );
  }

  #checkEnd(): void {
    const { pod, settings, abilities } = this.#input;
    const { drainSeconds } = settings.sidecar;
    const hasEnvoy = this.#applicationPort !== undefined;
    const before = abilities.nativeSidecars
      ? hasEnvoy
        ? settings.envoy.applicationSleepSeconds
        : 0
      : this.#envoySeconds + AGENT_OUTLIVES_SECONDS;
    const needed = before + drainSeconds + MARGIN_SECONDS;
    const given = pod.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
    if (given < needed) {
      this.#warnings.push(
        `terminationGracePeriodSeconds ${given} is short: the agent may be killed before it has drained, which takes up to ${needed} s`,
      );
    }
    if (!abilities.nativeSidecars && pod.restartPolicy !== "Always") {
      this.#warnings.push(
        "this cluster has no native sidecars (Kubernetes 1.29), so the pod keeps running after its own containers have ended",
      );
    }
  }
}

/** Istio may inject its proxy after Sluice. */
function asksForIstio({ labels, annotations }: Pod): boolean {
  return [labels, annotations].some((place) => place["sidecar.istio.io/inject"] === "true");
}

function native(container: Container, isNative: boolean): Container {
  return isNative ? { ...container, restartPolicy: "Always" } : container;
}

function withSleep(container: Container, seconds: number): Container {
  const lifecycle: Json = container["lifecycle"] ?? {};
  if (!isObject(lifecycle) || (lifecycle["preStop"] ?? null) !== null) return container;
  const preStop = sleepHook({ seconds, sleepAction: true, program: [] });
  return { ...container, lifecycle: { ...lifecycle, preStop } };
}

/** The pod's own resources take precedence; defaults that contradict them are dropped. */
function combined(defaults: Resources, asked: Partial<Resources>): Resources {
  const all = { ...defaults, ...asked };
  const fit = (what: "cpu" | "memory") => {
    const request = all[`${what}Request`];
    const limit = all[`${what}Limit`];
    if (request === "" || limit === "") return {};
    if ((amountOf(request) ?? 0) <= (amountOf(limit) ?? 0)) return {};
    return asked[`${what}Limit`] === undefined
      ? { [`${what}Limit`]: "" }
      : { [`${what}Request`]: limit };
  };
  return { ...all, ...fit("cpu"), ...fit("memory") };
}
