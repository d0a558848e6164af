// Objects of the Kubernetes API as far as Sluice reads them, and the paths under which they are found.

export interface ObjectMeta {
  readonly name: string;
  /** Absent for objects of the whole cluster. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Counts changes of all but metadata and status. */
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly ownerReferences?: readonly OwnerReference[];
}

/** An object with which another one goes away. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Whether it is the one that manages the other, as a Deployment does its ReplicaSets. */
  readonly controller?: boolean;
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** One kind of object, as its path names it. */
export interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
}

/** The place of objects: without a name all objects of a namespace, without a namespace those of the whole cluster. */
export interface Place {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly subresource?: "status" | "scale";
}

/** The path of an object or of a collection. */
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

/** `namespace/name`, or the name of an object of the whole cluster. */
export function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** Throws a TypeError for what is no object of the API. */
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
