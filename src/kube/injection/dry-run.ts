// What injection would make of the pods in manifests. Nothing is asked of a cluster, so its quotas and the annotations of its
// namespaces are not known here.

import { parseAllDocuments, stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import { NAMESPACE_LABEL } from "./mutation/annotations.ts";
import { inject } from "./mutation/mutate.ts";
import { isObject, type Json, type JsonObject, readPod, text } from "./pod.ts";
import type { ClusterAbilities, InjectionSettings } from "./settings.ts";

/** Where objects of a kind have their pod. */
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
  /** Warnings, refusals and pods that are left alone, a line each. */
  readonly notes: readonly string[];
  readonly isRefused: boolean;
}

/** Throws a Fault INVALID_ARGUMENT for text that is no manifest with a pod; `file` names it in messages. */
export function dryRun(
  manifests: string,
  file: string,
  settings: InjectionSettings,
  abilities: ClusterAbilities,
): DryRun {
  const notes: string[] = [];
  let pods = 0;
  let isRefused = false;
  const note = (object: JsonObject, said: string) => {
    const { metadata } = object;
    const { namespace, name } = isObject(metadata) ? metadata : {};
    const place = [text(namespace), text(name)].filter((part) => part !== "").join("/");
    notes.push(`${file}: ${text(object["kind"])} ${place}: ${said}`);
  };
  const injected = (object: JsonObject): JsonObject => {
    const kind = text(object["kind"]);
    const { items, metadata } = object;
    if (kind === "List" && Array.isArray(items))
      return { ...object, items: items.map((each) => (isObject(each) ? injected(each) : each)) };
    const path = Object.hasOwn(PODS, kind) ? PODS[kind] : undefined;
    if (path === undefined) return object;
    pods++;
    const name = (isObject(metadata) ? text(metadata["namespace"]) : "") || "default";
    const namespace = { name, labels: { [NAMESPACE_LABEL]: "enabled" }, annotations: {} };
    return replaced(object, path, (found) => {
      const result = inject({ pod: readPod(found), namespace, settings, abilities });
      for (const warning of result.warnings) note(object, `warning: ${warning}`);
      if (result.outcome === "refused") {
        isRefused = true;
        note(object, `refused: ${result.message}`);
      } else if (result.outcome === "skipped") note(object, `left alone (${result.reason})`);
      return result.outcome === "injected" ? result.whole : found;
    });
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
