// The part of a Kubernetes pod that injection reads, and its parser. All other fields are kept.

import { Fault } from "#base/fault.ts";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

export type Texts = Readonly<Record<string, string>>;

export interface EnvVar extends JsonObject {
  readonly name: string;
}

export interface ContainerPort extends JsonObject {
  readonly containerPort: number;
}

export interface VolumeMount extends JsonObject {
  readonly name: string;
  readonly mountPath: string;
}

/** A container. Other fields are kept. */
export interface Container extends JsonObject {
  readonly name: string;
}

export interface Volume extends JsonObject {
  readonly name: string;
}

/** The parsed parts of a pod. */
export interface Pod {
  /** The whole object. */
  readonly whole: JsonObject;
  /** Namespace and name for messages, as far as they are known. */
  readonly name: string;
  readonly labels: Texts;
  readonly annotations: Texts;
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
  readonly hostNetwork: boolean;
  readonly os: string;
  readonly restartPolicy: string;
  /** In seconds; undefined means 30. */
  readonly terminationGracePeriodSeconds: number | undefined;
}

/** The most items in any list that is read. Kubernetes limits the whole object to 1.5 MiB. */
const MAX_ITEMS = 10_000;

/** @throws Fault INVALID_ARGUMENT that names the field, for JSON that is not a pod */
export function readPod(json: Json | undefined): Pod {
  const whole = objectAt(json, "object");
  const metadata = optionalObject(whole["metadata"], "metadata");
  const spec = objectAt(whole["spec"], "spec");
  const name = text(metadata["name"]) || `${text(metadata["generateName"])}…`;
  const namespace = text(metadata["namespace"]);
  const grace = spec["terminationGracePeriodSeconds"];
  return {
    whole,
    name: namespace === "" ? name : `${namespace}/${name}`,
    labels: textsAt(metadata["labels"], "metadata.labels"),
    annotations: textsAt(metadata["annotations"], "metadata.annotations"),
    initContainers: namedAt(spec["initContainers"], "spec.initContainers"),
    containers: namedAt(spec["containers"], "spec.containers"),
    volumes: namedAt(spec["volumes"], "spec.volumes"),
    hostNetwork: spec["hostNetwork"] === true,
    os: text(optionalObject(spec["os"], "spec.os")["name"]),
    restartPolicy: text(spec["restartPolicy"]) || "Always",
    terminationGracePeriodSeconds: typeof grace === "number" ? grace : undefined,
  };
}

/** True if the pod, one of its containers or of its volumes needs this Secret. */
export function refersTo(pod: Pod, secret: string): boolean {
  const at = (json: Json | undefined, ...path: readonly string[]) =>
    path.reduce<Json | undefined>((now, key) => (isObject(now) ? now[key] : undefined), json);
  const inContainer = (container: Container) =>
    listAt(container["env"]).some(
      (each) => at(each, "valueFrom", "secretKeyRef", "name") === secret,
    ) || listAt(container["envFrom"]).some((each) => at(each, "secretRef", "name") === secret);
  const inVolume = (volume: Volume) =>
    at(volume, "secret", "secretName") === secret ||
    listAt(at(volume, "projected", "sources")).some(
      (each) => at(each, "secret", "name") === secret,
    );
  const pulls = listAt(at(pod.whole, "spec", "imagePullSecrets"));
  return (
    pulls.some(({ name }) => name === secret) ||
    [...pod.initContainers, ...pod.containers].some(inContainer) ||
    pod.volumes.some(inVolume)
  );
}

export function isObject(json: Json | undefined): json is JsonObject {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/** The text, or an empty one for other values. */
export function text(json: Json | undefined): string {
  return typeof json === "string" ? json : "";
}

/** The objects of a list; empty for other values. */
export function listAt(json: Json | undefined): readonly JsonObject[] {
  return Array.isArray(json) ? json.filter(isObject) : [];
}

function kindOf(json: Json | undefined): string {
  if (json === undefined || json === null) return "nothing";
  if (Array.isArray(json)) return "a list";
  return typeof json === "object" ? "an object" : `a ${typeof json}`;
}

function wrong(path: string, wanted: string, json: Json | undefined): Fault {
  return new Fault("INVALID_ARGUMENT", `${path}: wanted ${wanted}, got ${kindOf(json)}`);
}

export function objectAt(json: Json | undefined, path: string): JsonObject {
  if (isObject(json)) return json;
  throw wrong(path, "an object", json);
}

function optionalObject(json: Json | undefined, path: string): JsonObject {
  return json === undefined || json === null ? {} : objectAt(json, path);
}

function textsAt(json: Json | undefined, path: string): Texts {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(optionalObject(json, path))) {
    if (typeof value !== "string") throw wrong(`${path}[${JSON.stringify(key)}]`, "text", value);
    texts[key] = value;
  }
  return texts;
}

function namedAt(json: Json | undefined, path: string): readonly Container[] {
  if (json === undefined || json === null) return [];
  if (!Array.isArray(json)) throw wrong(path, "a list", json);
  if (json.length > MAX_ITEMS) {
    const wanted = `${path}: wanted at most ${MAX_ITEMS} items`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${json.length}`);
  }
  return json.map((item: Json, at) => {
    const found = objectAt(item, `${path}[${at}]`);
    const { name } = found;
    if (typeof name !== "string") throw wrong(`${path}[${at}].name`, "text", name);
    return { ...found, name };
  });
}
