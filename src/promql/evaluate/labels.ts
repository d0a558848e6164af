// Labels as the evaluator handles them: without a prototype (a label may be called `constructor`), names in
// order, no empty values. Equal labels therefore have equal keys.

import type { Labels } from "../result.ts";

export const NO_LABELS: Labels = Object.freeze(Object.create(null));

export function inOrder(labels: Labels): Labels {
  return filter(labels, Object.keys(labels).sort(), () => true);
}

/** Only those of `names`, which are in order. */
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

/** An empty value takes the label away. */
export function change(labels: Labels, changes: Labels): Labels {
  return inOrder(Object.assign(Object.create(null), labels, changes));
}

export function keyOf(labels: Labels): string {
  let key = "";
  for (const name in labels) key += `${name}\u0000${labels[name]}\u0001`;
  return key;
}

/** Key of only those of `names`. */
export function keyBy(labels: Labels, names: readonly string[]): string {
  let key = "";
  for (const name of names) key += `${labels[name] ?? ""}\u0001`;
  return key;
}

/** Key of all but those of `names`. */
export function keyBut(labels: Labels, names: ReadonlySet<string>): string {
  let key = "";
  for (const name in labels) if (!names.has(name)) key += `${name}\u0000${labels[name]}\u0001`;
  return key;
}

/** In an order that is ready for `keep` and `keyBy`. */
export function namesInOrder(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

/** As queries write them. */
export function show(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `{${pairs.join(", ")}}`;
}
