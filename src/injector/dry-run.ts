// Injects sidecars into manifests, as an injector with the same configuration would do in a current cluster. No cluster is
// asked, so resource quotas and annotations of namespaces are unknown.

import { parseAllDocuments, stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import { version } from "#runtime/status/info.ts";
import { loadInjector } from "./config.ts";
import { NAMESPACE_LABEL } from "./mutation/annotations.ts";
import { type Injection, inject } from "./mutation/mutate.ts";
import { isObject, type Json, type JsonObject, readPod, text } from "./pod.ts";
import type { ClusterAbilities, InjectionSettings } from "./settings.ts";

type ConfigSources = Parameters<typeof loadInjector>[0];

/** The path to the pod in objects of each kind. */
const PODS: Readonly<Record<string, readonly string[]>> = {
  Pod: [],
  ...Object.fromEntries(
    ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"].map(
      (kind) => [kind, ["spec", "template"]],
    ),
  ),
  CronJob: ["spec", "jobTemplate", "spec", "template"],
};

export interface DryRun {
  /** All objects as YAML, with their pods injected. */
  readonly yaml: string;
  /** One line for each warning, refusal and pod that is left alone. */
  readonly notes: readonly string[];
  readonly isRefused: boolean;
}

/**
 * Without a configuration file, sidecars have the image of this version unless a variable names another.
 * @throws Fault INVALID_ARGUMENT for text that is not a manifest with a pod; `file` names it in messages
 */
export function injectManifests(manifests: string, file: string, sources: ConfigSources): DryRun {
  const { env, configPath } = sources;
  const image =
    configPath === undefined ? { SVC_INJECTOR_SIDECAR_IMAGE: `sluice:${version()}` } : {};
  const { injector, sidecars } = loadInjector({ ...sources, env: { ...image, ...env } });
  const { ignored_namespaces: ignoredNamespaces, native_sidecars } = injector.config;
  const ofProcess = { ignoredNamespaces, ipFamily: "IPv4", version: version() } as const;
  const settings = { ...sidecars({}).injection, ...ofProcess };
  const abilities = { nativeSidecars: native_sidecars !== "off", sleepAction: true };
  return dryRun(manifests, file, settings, abilities);
}

function dryRun(
  manifests: string,
  file: string,
  settings: InjectionSettings,
  abilities: ClusterAbilities,
): DryRun {
  const notes: string[] = [];
  let pods = 0;
  let isRefused = false;
  const injectInto = (object: JsonObject, path: readonly string[]): JsonObject => {
    const { kind, metadata } = object;
    const { namespace, name } = isObject(metadata) ? metadata : {};
    const place = [text(namespace), text(name)].filter((part) => part !== "").join("/");
    const title = `${file}: ${text(kind)} ${place}`;
    const labels = { [NAMESPACE_LABEL]: "enabled" };
    const enabled = { name: text(namespace) || "default", labels, annotations: {} };
    pods++;
    try {
      return replaced(object, path, (template) => {
        const pod = readPod(template);
        const injection = inject({ pod, namespace: enabled, settings, abilities });
        notes.push(...notesOf(injection).map((note) => `${title}: ${note}`));
        isRefused ||= injection.outcome === "refused";
        return injection.outcome === "injected" ? injection.whole : template;
      });
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      throw new Fault(code, `${title}: ${message}`, { cause: thrown });
    }
  };
  const injected = (object: JsonObject): JsonObject => {
    const { kind, items } = object;
    if (kind === "List" && Array.isArray(items))
      return { ...object, items: items.map((each) => (isObject(each) ? injected(each) : each)) };
    const path = Object.hasOwn(PODS, text(kind)) ? PODS[text(kind)] : undefined;
    return path === undefined ? object : injectInto(object, path);
  };
  const before = read(manifests, file);
  const after = before.map(injected);
  if (pods === 0) {
    const wanted = `a ${Object.keys(PODS).join(", ")} or a List of them`;
    const got = before.map(({ kind }) => text(kind) || "no kind").join(", ") || "nothing";
    throw new Fault("INVALID_ARGUMENT", `${file}: wanted ${wanted}, got ${got}`);
  }
  const yaml = after.map((each) => stringify(each, { lineWidth: 0 })).join("---\n");
  return { yaml, notes, isRefused };
}

function notesOf(injection: Injection): readonly string[] {
  const warnings = injection.warnings.map((warning) => `warning: ${warning}`);
  if (injection.outcome === "refused") return [...warnings, `refused: ${injection.message}`];
  if (injection.outcome === "skipped") return [...warnings, `left alone (${injection.reason})`];
  return warnings;
}

function read(manifests: string, file: string): readonly JsonObject[] {
  return [...parseAllDocuments(manifests)].flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined)
      throw new Fault("INVALID_ARGUMENT", `${file}: ${error.message.split("\n", 1)[0]}`);
    const json: Json = document.toJS();
    if (json === null) return [];
    if (isObject(json)) return [json];
    throw new Fault("INVALID_ARGUMENT", `${file}: wanted Kubernetes objects, got something else`);
  });
}

/** The object with another pod at the path. */
function replaced(
  object: JsonObject,
  [key, ...rest]: readonly string[],
  by: (pod: JsonObject) => JsonObject,
): JsonObject {
  if (key === undefined) return by(object);
  const inside = object[key];
  if (!isObject(inside)) throw new Fault("INVALID_ARGUMENT", `${key}: wanted an object with a pod`);
  return { ...object, [key]: replaced(inside, rest, by) };
}
