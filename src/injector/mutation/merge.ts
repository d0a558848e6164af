// Merges a container that the pod already has with the one that injection would add. Its own fields win.

import {
  type Container,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Pod,
  text,
  type Volume,
} from "../pod.ts";

/** Fields whose items are merged by one of their own fields. */
const LISTS = { env: "name", volumeMounts: "mountPath" } as const;
/** Fields whose own members win one by one. */
const OBJECTS = ["securityContext"] as const;

/** Values of `image` that injection replaces. */
const AUTO: readonly string[] = ["", "auto"];

export function mergeContainer(own: Container, added: Container): Container {
  const isFilled = AUTO.includes(text(own["image"]));
  const merged: Record<string, Json> = { ...added, ...present(own), name: own.name };
  for (const [field, key] of Object.entries(LISTS)) {
    if (own[field] === undefined && added[field] === undefined) continue;
    merged[field] = mergeList(listAt(own[field]), listAt(added[field]), key);
  }
  for (const field of OBJECTS) {
    const [theirs, ours] = [own[field], added[field]];
    if (isObject(theirs) && isObject(ours)) merged[field] = { ...ours, ...theirs };
  }
  merged["ports"] = mergePorts(listAt(own["ports"]), listAt(added["ports"]));
  if (isFilled) {
    merged["image"] = added["image"] ?? "";
    // The API server has set `Always` for the missing tag before it asked.
    const policy = added["imagePullPolicy"];
    if (policy === undefined) delete merged["imagePullPolicy"];
    else if (["", "Always"].includes(text(own["imagePullPolicy"])))
      merged["imagePullPolicy"] = policy;
  }
  return { ...merged, name: own.name };
}

/** The fields that say something: the API server fills in `resources: {}`. */
function present(own: Container): JsonObject {
  const said = Object.entries(own).filter(
    ([, value]) => value !== null && !(isObject(value) && Object.keys(value).length === 0),
  );
  return Object.fromEntries(said);
}

function mergeList(
  own: readonly JsonObject[],
  added: readonly JsonObject[],
  key: string,
): readonly JsonObject[] {
  const known = new Set(own.map((item) => item[key]));
  return [...own, ...added.filter((item) => !known.has(item[key]))];
}

/** A port is the same when its number or its name is. */
function mergePorts(
  own: readonly JsonObject[],
  added: readonly JsonObject[],
): readonly JsonObject[] {
  const isNew = (port: JsonObject) =>
    own.every(
      (other) => other["containerPort"] !== port["containerPort"] && other["name"] !== port["name"],
    );
  return [...own, ...added.filter(isNew)];
}

/** The volumes of the pod, and those of these that it has no volume of that name for. */
export function mergeVolumes({ volumes }: Pod, added: readonly Volume[]): readonly Volume[] {
  const known = new Set(volumes.map(({ name }) => name));
  return [...volumes, ...added.filter(({ name }) => !known.has(name))];
}

/** The pull secrets of the pod, which those of its account are among already, and these. */
export function mergePullSecrets(
  own: readonly JsonObject[],
  added: readonly string[],
): readonly JsonObject[] {
  return mergeList(
    own,
    added.map((name) => ({ name })),
    "name",
  );
}
