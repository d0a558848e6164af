// Translates the configuration into the settings of injection: the injector's own keys, and the agent's keys as the
// configuration of sidecars.

import { type ConfigError, ConfigFault } from "#config/fault.ts";
import type { Loaded } from "#config/load.ts";
import { type ConfigLeaf, leaves, PROCESSES } from "#config/tree.ts";
import { variableOf, variablesOf } from "#config/variables.ts";
import {
  CERTIFICATES_PATH,
  type InjectionSettings,
  type Resources,
  SIDECAR_PORT,
  type Sidecars,
} from "./settings.ts";

/** Finds files of the certificates' Secret in values of the agent's configuration. */
const CERTIFICATE_FILES = new RegExp(`${CERTIFICATES_PATH}/([\\w.-]+)`, "g");

/** Type and entry of Secrets with the credentials of a registry. */
const PULL_TYPE = "kubernetes.io/dockerconfigjson";
const PULL_ENTRY = ".dockerconfigjson";

export interface InjectorConfigs {
  readonly injector: Loaded<"injector">;
  /** The agent's configuration for sidecars. */
  readonly agent: Loaded<"agent">;
}

/** The settings of injection, without those that the cluster and this process determine. */
export type ConfiguredInjection = Omit<
  InjectionSettings,
  "ignoredNamespaces" | "ipFamily" | "version"
>;

type EnvVar = InjectionSettings["sidecar"]["env"][number];
type OtherPort = InjectionSettings["sidecar"]["otherPorts"][number];

/** The Secrets that sidecars refer to, each with the entries that they use. */
export function secretsOfSidecars({ injector, agent }: InjectorConfigs): Sidecars["secrets"] {
  const { certificates, secrets } = injector.config.sidecar;
  const used = new Map<string, Set<string>>();
  const use = (name: string, entry: string) =>
    used.set(name, (used.get(name) ?? new Set()).add(entry));
  if (certificates !== "") {
    // A pod waits for a mounted Secret even if the agent reads none of its files.
    used.set(certificates, new Set());
    for (const { text } of variablesOf(agent))
      for (const [, entry = ""] of text.matchAll(CERTIFICATE_FILES)) use(certificates, entry);
  }
  for (const reference of secrets) {
    const { secret, entry } = referenceOf(reference);
    use(secret, entry);
  }
  const pulls = new Set(injector.config.sidecar.pull_secrets);
  for (const name of pulls) use(name, PULL_ENTRY);
  return [...used].map(([name, entries]) => ({
    name,
    ...(pulls.has(name) ? { type: PULL_TYPE } : {}),
    entries: [...entries].sort(),
  }));
}

/**
 * Valid placeholders for values that sidecars take from Secrets, by the name of the agent's variable. The injector does not
 * read these values, but rules between keys (a user needs a password) need them.
 */
export function placeholders(injector: Loaded<"injector">): Readonly<Record<string, string>> {
  const rows = new Map(leaves(PROCESSES.agent.table).map(({ path, row }) => [path, row]));
  return Object.fromEntries(
    injector.config.sidecar.secrets.flatMap((reference) => {
      const { key } = referenceOf(reference);
      const [name, text] = [variableOf("agent", key), placeholderOf(rows.get(key))];
      return name === undefined || text === undefined ? [] : [[name, text]];
    }),
  );
}

function placeholderOf(row: ConfigLeaf["row"] | undefined): string | undefined {
  if (row?.kind === "headers") return "{}";
  if (row?.kind === "objects") return "[]";
  return row?.kind === "string" ? row.format.example : undefined;
}

/** @throws ConfigFault for settings that a sidecar could not use */
export function injectionSettings({ injector, agent }: InjectorConfigs): ConfiguredInjection {
  const faults: ConfigError[] = [];
  const env = [
    ...environmentOf(agent, placeholders(injector), faults),
    ...referencesOf(injector, faults),
    ...injector.config.sidecar.extra_env.map(variableIn),
  ];
  const { port, isPortChosen } = portOf(agent, faults);
  faults.push(...clashesOf(injector, port));
  if (injector.config.sidecar.image.trim() === "") {
    const [wanted, got] = ["the image of Sluice", "nothing"];
    faults.push({ process: "injector", path: "sidecar.image", where: "", wanted, got });
  }
  if (faults.length > 0) throw new ConfigFault(faults);
  const { envoy, sidecar } = injector.config;
  const { drain, tls } = agent.config.server;
  return {
    pullSecrets: sidecar.pull_secrets,
    sidecar: {
      ...containerOf(sidecar),
      port,
      isPortChosen,
      otherPorts: otherPorts(agent),
      probes: !tls.enabled ? "HTTP" : tls.client_ca_file === "" ? "HTTPS" : "TCP",
      env,
      certificates: sidecar.certificates,
      drainSeconds: Math.ceil((drain.accept_for + drain.grace) / 1_000),
    },
    envoy: {
      ...containerOf(envoy),
      inject: envoy.inject,
      port: envoy.port,
      adminPort: envoy.admin_port,
      concurrency: envoy.concurrency,
      clientBaggage: envoy.client_baggage,
      applicationSleepSeconds: Math.ceil(envoy.application_sleep / 1_000),
    },
  };
}

interface ContainerConfig {
  readonly image: string;
  readonly image_pull_policy: string;
  readonly run_as_user: number;
  readonly resources: {
    readonly cpu_limit: string;
    readonly cpu_request: string;
    readonly memory_limit: string;
    readonly memory_request: string;
  };
}

function containerOf({ image, image_pull_policy, run_as_user, resources }: ContainerConfig) {
  const quantities: Resources = {
    cpuLimit: resources.cpu_limit,
    cpuRequest: resources.cpu_request,
    memoryLimit: resources.memory_limit,
    memoryRequest: resources.memory_request,
  };
  return {
    image,
    imagePullPolicy: image_pull_policy,
    runAsUser: run_as_user,
    resources: quantities,
  };
}

/** Parses `NAME=VALUE`, and escapes `$(NAME)`, which Kubernetes would replace. */
function variableIn(text: string): EnvVar {
  const equals = text.indexOf("=");
  const value = text.slice(equals + 1).replaceAll("$(", () => "$$(");
  return { name: text.slice(0, equals), value };
}

/** Everyone who may read pods can read their variables, so secrets are references. */
function environmentOf(
  agent: Loaded<"agent">,
  referred: Readonly<Record<string, string>>,
  faults: ConfigError[],
): readonly EnvVar[] {
  return variablesOf(agent).flatMap(({ path, name, text, where, isSecret }) => {
    if (text === referred[name]) return [];
    if (isSecret) {
      const wanted = "a reference in sidecar.secrets, because pods can be read by many";
      faults.push({ process: "agent", path, where, wanted, got: "a value" });
      return [];
    }
    return [variableIn(`${name}=${text}`)];
  });
}

function referencesOf(injector: Loaded<"injector">, faults: ConfigError[]): readonly EnvVar[] {
  return injector.config.sidecar.secrets.flatMap((reference) => {
    const { key, secret, entry } = referenceOf(reference);
    const name = variableOf("agent", key);
    if (name === undefined) {
      const path = "sidecar.secrets";
      const where = injector.origins.get(path)?.where ?? "";
      const got = JSON.stringify(key);
      faults.push({ process: "injector", path, where, wanted: "a key of the agent", got });
      return [];
    }
    return [{ name, valueFrom: { secretKeyRef: { name: secret, key: entry } } }];
  });
}

/** The format of the key guarantees all parts. */
function referenceOf(reference: string) {
  const equals = reference.indexOf("=");
  const slash = reference.indexOf("/", equals);
  return {
    key: reference.slice(0, equals),
    secret: reference.slice(equals + 1, slash),
    entry: reference.slice(slash + 1),
  };
}

function portOf(
  { config, origins }: Loaded<"agent">,
  faults: ConfigError[],
): { readonly port: number; readonly isPortChosen: boolean } {
  const path = "server.listener.addr";
  const isPortChosen = origins.get(path)?.source !== "default";
  if (!isPortChosen) return { port: SIDECAR_PORT, isPortChosen };
  const { addr } = config.server.listener;
  const port = addr.startsWith("unix:") ? 0 : Number(addr.slice(addr.lastIndexOf(":") + 1));
  if (port > 0) return { port, isPortChosen };
  const wanted = "an address with a port above 0, because kubelets probe sidecars";
  const where = origins.get(path)?.where ?? "";
  faults.push({ process: "agent", path, where, wanted, got: JSON.stringify(addr) });
  return { port: 0, isPortChosen };
}

/** Ports of Envoy that are also the agent's, which listens in the same pods. */
function clashesOf({ config, origins }: Loaded<"injector">, port: number): readonly ConfigError[] {
  const { admin_port, port: own } = config.envoy;
  return Object.entries({ "envoy.port": own, "envoy.admin_port": admin_port }).flatMap(
    ([path, each]) => {
      if (each !== port) return [];
      const where = origins.get(path)?.where ?? "";
      const wanted = "another port than that of the agent's server.listener.addr";
      return [{ process: "injector", path, where, wanted, got: `${each}` }];
    },
  );
}

/** The configured ports. Default ports that are in use are skipped by the agent itself. */
function otherPorts({ config, origins }: Loaded<"agent">): readonly OtherPort[] {
  const { debug_port, health_check_port } = config.otel.ports;
  const isChosen = (key: string) => origins.get(`otel.ports.${key}`)?.source !== "default";
  const named = [
    { name: "sluice-metrics", containerPort: debug_port, chosen: isChosen("debug_port") },
    {
      name: "sluice-health",
      containerPort: health_check_port,
      chosen: isChosen("health_check_port"),
    },
  ];
  return named.flatMap(({ name, containerPort, chosen }) =>
    chosen && containerPort > 0 ? [{ name, containerPort, protocol: "TCP" }] : [],
  );
}
