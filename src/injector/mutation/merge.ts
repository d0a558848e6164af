// Merges a container of the pod with the one that injection would add. The pod's fields take precedence.

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

/** Lists that are merged, with the field that identifies an item. */
const LISTS = { env: "name", volumeMounts: "mountPath" } as const;
/** Objects that are merged member by member. */
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
    // Before the review, the API server set `Always` because the image had no tag.
    const policy = added["imagePullPolicy"];
    if (policy === undefined) delete merged["imagePullPolicy"];
    else if (["", "Always"].includes(text(own["imagePullPolicy"])))
      merged["imagePullPolicy"] = policy;
  }
  return { ...merged, name: own.name };
}

/** The fields that are not empty: the API server fills in `resources: {}`. */
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

/** Ports are equal if their number or their name is. */
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

/** The volumes of the pod, and the added ones whose names are free. */
export function mergeVolumes({ volumes }: Pod, added: readonly Volume[]): readonly Volume[] {
  const known = new Set(volumes.map(({ name }) => name));
  return [...volumes, ...added.filter(({ name }) => !known.has(name))];
}

/** The pull secrets of the pod (including those of its account) and the added ones. */
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
