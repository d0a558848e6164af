// Objects of the Kubernetes API: the fields that Sluice reads, and their paths.

export interface ObjectMeta {
  readonly name: string;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Incremented by changes of everything but metadata and status. */
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly ownerReferences?: readonly OwnerReference[];
}

/** An object whose deletion also deletes the object that refers to it. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** True if it manages the other object, as a Deployment manages its ReplicaSets. */
  readonly controller?: boolean;
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** A kind of object, as in paths. */
export interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
}

/** Without a name: all objects of the namespace. Without a namespace: objects of the whole cluster. */
export interface Place {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly subresource?: "status" | "scale";
}

export function pathOf(
  { group, version, plural }: Resource,
  { namespace, name, subresource }: Place = {},
): string {
  const parts = [
    ...(group === "" ? ["api"] : ["apis", group]),
    version,
    ...(namespace === undefined ? [] : ["namespaces", namespace]),
    plural,
    ...(name === undefined ? [] : [name]),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** `namespace/name`, or the name of a cluster-scoped object. */
export function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** @throws TypeError for a value that is not an object of the API */
export function asObject(value: unknown): KubeObject {
  const metadata = fieldOf(value, "metadata");
  if (typeof fieldOf(metadata, "name") !== "string") {
    throw new TypeError("wanted an object with metadata.name");
  }
  return value as KubeObject;
}

/** A field of a value that need not be an object; undefined where there is none. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** A field that is a list; empty where it is not. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  const field = fieldOf(value, name);
  return Array.isArray(field) ? field : [];
}

/** A field that is text; "" where it is not. */
export function textOf(value: unknown, name: string): string {
  const field = fieldOf(value, name);
  return typeof field === "string" ? field : "";
}
