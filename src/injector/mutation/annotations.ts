// The labels and annotations by which authors of pods and namespaces control injection. Those of the reference implementation
// are understood too; Sluice's own take precedence. As in meshes, `inject` may also be a label.

import { nearest } from "#base/text/spelling.ts";
import type { Pod, Texts } from "../pod.ts";
import type { ClientBaggage, Namespace, Resources } from "../settings.ts";

export const NAMESPACE_LABEL = "sluice-injection";
export const REFERENCE_NAMESPACE_LABEL = "aperture-injection";
const ENABLED = "enabled";

/** Set on every injected pod; its value is the version. */
export const INJECTED = "sluice/injected";

const ANNOTATIONS = {
  inject: "sluice/inject",
  agentGroup: "sluice/agent-group",
  port: "sluice/port",
  envoy: "sluice/envoy-inject",
  clientBaggage: "sluice/envoy-client-baggage",
  escapedSlashes: "sluice/envoy-escaped-slashes",
  upgrades: "sluice/envoy-upgrades",
  idleSeconds: "sluice/envoy-idle-timeout",
  bodyBytes: "sluice/envoy-body-bytes",
  probes: "sluice/envoy-probes",
  applicationPort: "sluice/application-port",
  cpuRequest: "sluice/resources-cpu-request",
  cpuLimit: "sluice/resources-cpu-limit",
  memoryRequest: "sluice/resources-memory-request",
  memoryLimit: "sluice/resources-memory-limit",
  envoyCpuRequest: "sluice/envoy-resources-cpu-request",
  envoyCpuLimit: "sluice/envoy-resources-cpu-limit",
  envoyMemoryRequest: "sluice/envoy-resources-memory-request",
  envoyMemoryLimit: "sluice/envoy-resources-memory-limit",
  injected: INJECTED,
} as const;

const REFERENCE = {
  inject: "sidecar.fluxninja.com/injection",
  agentGroup: "sidecar.fluxninja.com/agent-group",
} as const;

/** Reserved for the agents of the cloud. */
const CLOUD_GROUP = "aperture-cloud";

/** How Envoy treats paths that contain `%2F` or `%5C`. */
export type EscapedSlashes = "reject" | "keep" | "redirect";

/** The protocols to which a connection may be upgraded. */
export type Upgrade = "websocket" | "CONNECT";

export interface PodOptions {
  /** True if the pod asks for injection or against it; undefined if it does neither. */
  readonly inject: boolean | undefined;
  readonly agentGroup: string | undefined;
  readonly port: number | undefined;
  readonly envoy: boolean | undefined;
  readonly clientBaggage: ClientBaggage | undefined;
  readonly escapedSlashes: EscapedSlashes | undefined;
  readonly upgrades: readonly Upgrade[] | undefined;
  readonly idleSeconds: number | undefined;
  readonly bodyBytes: number | undefined;
  /** True if Envoy forwards the kubelet's probes to the application. */
  readonly probes: boolean | undefined;
  readonly applicationPort: number | undefined;
  /** The agent's resources. */
  readonly resources: Partial<Resources>;
  readonly envoyResources: Partial<Resources>;
  readonly warnings: readonly string[];
  /** Invalid annotations. Each fault names the annotation, what was wanted and what was got. */
  readonly faults: readonly string[];
}

/** True if the labels of a namespace ask for injection. Sluice's label takes precedence. */
export function isEnabled(labels: Texts): boolean {
  const own = labels[NAMESPACE_LABEL];
  return own === undefined ? labels[REFERENCE_NAMESPACE_LABEL] === ENABLED : own === ENABLED;
}

export function readPodOptions(
  { annotations, labels }: Pod,
  namespace: Namespace | undefined,
): PodOptions {
  const faults: string[] = [];
  const take = <T>(key: string | undefined, format: Format<T>, from = annotations) => {
    const got = key === undefined ? undefined : from[key];
    if (key === undefined || got === undefined) return undefined;
    const value = format.value(got);
    const name = from === labels ? `label ${key}` : key;
    if (value === undefined) faults.push(`${name}: wanted ${format.wanted}, got ${shown(got)}`);
    return value;
  };
  const first = (key: keyof typeof REFERENCE, ...places: readonly Texts[]) =>
    [ANNOTATIONS[key], REFERENCE[key]].find((name) =>
      places.some((place) => place[name] !== undefined),
    );
  const injectKey = first("inject", annotations, labels);
  const injectValues = [annotations, labels].map((place) => take(injectKey, BOOL, place));
  const resources = readResources(OF_AGENT, take, faults);
  const envoyResources = readResources(OF_ENVOY, take, faults);
  const options = {
    // "false" in either place prevents injection.
    inject: injectValues.includes(false)
      ? false
      : injectValues.find((value) => value !== undefined),
    agentGroup:
      take(first("agentGroup", annotations), GROUP) ??
      take(ANNOTATIONS.agentGroup, GROUP, namespace?.annotations ?? {}),
    port: take(ANNOTATIONS.port, PORT),
    envoy: take(ANNOTATIONS.envoy, BOOL),
    clientBaggage: take(ANNOTATIONS.clientBaggage, CLIENT_BAGGAGE),
    escapedSlashes: take(ANNOTATIONS.escapedSlashes, ESCAPED_SLASHES),
    upgrades: take(ANNOTATIONS.upgrades, UPGRADES),
    idleSeconds: take(ANNOTATIONS.idleSeconds, IDLE_SECONDS),
    bodyBytes: take(ANNOTATIONS.bodyBytes, BODY_BYTES),
    probes: take(ANNOTATIONS.probes, BOOL),
    applicationPort: take(ANNOTATIONS.applicationPort, PORT),
  };
  const warnings = [...unknownNames(annotations), ...uselessLabels(labels)];
  return { ...options, resources, envoyResources, warnings, faults };
}

interface Format<T> {
  readonly wanted: string;
  /** Undefined for invalid text. */
  readonly value: (text: string) => T | undefined;
}

const BOOL: Format<boolean> = {
  wanted: '"true" or "false"',
  value: (text) => (text === "true" ? true : text === "false" ? false : undefined),
};

const CLIENT_BAGGAGE: Format<ClientBaggage> = {
  wanted: '"ignore" or "believe"',
  value: (text) => (text === "ignore" || text === "believe" ? text : undefined),
};

const ESCAPED_SLASHES: Format<EscapedSlashes> = {
  wanted: '"reject", "keep" or "redirect"',
  value: (text) => (text === "reject" || text === "keep" || text === "redirect" ? text : undefined),
};

/**
 * Other upgrades would hide request bodies from classifiers: Envoy buffers the body of an unknown upgrade until it is
 * complete.
 */
const UPGRADES: Format<readonly Upgrade[]> = {
  wanted: '"websocket", "CONNECT", both with a comma between them, or "" for none',
  value: (text) => {
    const names = text.split(",").map((name) => name.trim());
    if (text.trim() === "") return [];
    const known = names.filter((name) => name === "websocket" || name === "CONNECT");
    return known.length === names.length ? known : undefined;
  },
};

const SECONDS = { s: 1, m: 60, h: 3_600 } as const;

const IDLE_SECONDS: Format<number> = {
  wanted: "a time such as 90s, 30m or 4h, or 0s for no limit",
  value: (text) => {
    const [, digits, unit] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
    return unit === undefined ? undefined : Number(digits) * SECONDS[unit as keyof typeof SECONDS];
  },
};

/** The most bytes of a body that Envoy buffers until the request is judged. */
const MAX_BODY_BYTES = 2 ** 20;

const BODY_BYTES: Format<number> = {
  wanted: `a number of bytes from 0 to ${MAX_BODY_BYTES}`,
  value: (text) =>
    /^\d{1,7}$/.test(text) && Number(text) <= MAX_BODY_BYTES ? Number(text) : undefined,
};

const PORT: Format<number> = {
  wanted: "a port from 1 to 65535",
  value: (text) => {
    const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
    return port >= 1 && port <= 65_535 ? port : undefined;
  },
};

const GROUP: Format<string> = {
  wanted: `the name of an agent group, without / and not ${CLOUD_GROUP}`,
  value: (text) =>
    text.trim() !== "" && !/[/\0$]/.test(text) && text !== CLOUD_GROUP ? text : undefined,
};

const QUANTITY: Format<string> = {
  wanted: "a quantity, such as 100m or 128Mi",
  value: (text) => (amountOf(text) === undefined ? undefined : text),
};

const UNITS: Readonly<Record<string, number>> = {
  m: 1e-3,
  "": 1,
  k: 1e3,
  Ki: 2 ** 10,
  M: 1e6,
  Mi: 2 ** 20,
  G: 1e9,
  Gi: 2 ** 30,
  T: 1e12,
  Ti: 2 ** 40,
};

/** The number that a Kubernetes quantity denotes; undefined for other text. Exponents are not supported. */
export function amountOf(quantity: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,15}(?:\.\d{1,9})?)([A-Za-z]*)$/.exec(quantity) ?? [];
  const factor = Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}

/** The annotation of each quantity. */
type ResourceNames = Readonly<Record<keyof Resources, string>>;

export const OF_AGENT: ResourceNames = {
  cpuRequest: ANNOTATIONS.cpuRequest,
  cpuLimit: ANNOTATIONS.cpuLimit,
  memoryRequest: ANNOTATIONS.memoryRequest,
  memoryLimit: ANNOTATIONS.memoryLimit,
};

export const OF_ENVOY: ResourceNames = {
  cpuRequest: ANNOTATIONS.envoyCpuRequest,
  cpuLimit: ANNOTATIONS.envoyCpuLimit,
  memoryRequest: ANNOTATIONS.envoyMemoryRequest,
  memoryLimit: ANNOTATIONS.envoyMemoryLimit,
};

function readResources(
  names: ResourceNames,
  take: (name: string, format: Format<string>) => string | undefined,
  faults: string[],
): Partial<Resources> {
  const keys = ["cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"] as const;
  const found: Partial<Resources> = Object.fromEntries(
    keys.flatMap((key) => {
      const quantity = take(names[key], QUANTITY);
      return quantity === undefined ? [] : [[key, quantity] as const];
    }),
  );
  for (const what of ["cpu", "memory"] as const) {
    const request = found[`${what}Request`];
    const limit = found[`${what}Limit`];
    if (request === undefined || limit === undefined) continue;
    if ((amountOf(request) ?? 0) <= (amountOf(limit) ?? 0)) continue;
    const name = names[`${what}Limit`];
    faults.push(`${name}: wanted at least the request, ${shown(request)}, got ${shown(limit)}`);
  }
  return found;
}

/** Misspelt annotations have no effect, which nobody would notice. */
function* unknownNames(annotations: Texts): Generator<string> {
  const known: readonly string[] = Object.values(ANNOTATIONS);
  for (const name of Object.keys(annotations)) {
    if (!name.startsWith("sluice/") || known.includes(name)) continue;
    const meant = nearest(name, known);
    const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
    yield `annotation ${shown(name)} is unknown and has no effect${hint}`;
  }
}

/** Of Sluice's annotations only `sluice/inject` may be a label. */
function* uselessLabels(labels: Texts): Generator<string> {
  const known: readonly string[] = Object.values(ANNOTATIONS);
  for (const name of Object.keys(labels)) {
    if (!name.startsWith("sluice/") || name === ANNOTATIONS.inject) continue;
    const meant = known.includes(name) ? name : nearest(name, known);
    const hint = meant === undefined ? "" : `; did you mean the annotation ${meant}?`;
    yield `label ${shown(name)} has no effect${hint}`;
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
