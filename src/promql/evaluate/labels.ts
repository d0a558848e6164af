// Label sets of the evaluator: objects without a prototype (a label may be called `constructor`), with sorted names
// and no empty values, so that equal label sets have equal keys.

import type { Labels } from "../result.ts";

export const NO_LABELS: Labels = Object.freeze(Object.create(null));

export function inOrder(labels: Labels): Labels {
  return filter(labels, Object.keys(labels).sort(), () => true);
}

/** Only the labels in `names`, which must be sorted. */
export function keep(labels: Labels, names: readonly string[]): Labels {
  return filter(labels, names, () => true);
}

export function drop(labels: Labels, names: ReadonlySet<string>): Labels {
  return filter(labels, Object.keys(labels), (name) => !names.has(name));
}

function filter(labels: Labels, names: readonly string[], fits: (name: string) => boolean): Labels {
  const kept: Record<string, string> = Object.create(null);
  for (const name of names) {
    const value = labels[name];
    if (value !== undefined && value !== "" && fits(name)) kept[name] = value;
  }
  return kept;
}

/** Changes labels; an empty value removes one. */
export function change(labels: Labels, changes: Labels): Labels {
  return inOrder(Object.assign(Object.create(null), labels, changes));
}

export function keyOf(labels: Labels): string {
  let key = "";
  for (const name in labels) key += `${name}\u0000${labels[name]}\u0001`;
  return key;
}

/** Key of the labels in `names` only. */
export function keyBy(labels: Labels, names: readonly string[]): string {
  let key = "";
  for (const name of names) key += `${labels[name] ?? ""}\u0001`;
  return key;
}

/** Key of all labels except those in `names`. */
export function keyBut(labels: Labels, names: ReadonlySet<string>): string {
  let key = "";
  for (const name in labels) if (!names.has(name)) key += `${name}\u0000${labels[name]}\u0001`;
  return key;
}

/** Sorted and without duplicates, as `keep` and `keyBy` require. */
export function namesInOrder(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

/** Formats labels as in a query. */
export function show(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `{${pairs.join(", ")}}`;
}
