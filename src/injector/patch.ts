// The difference of two JSON values as a JSON patch (RFC 6902), the form of a webhook's answer.

import { isDeepStrictEqual } from "node:util";
import { isObject, type Json, type JsonObject } from "./pod.ts";

export type Operation =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

/** The operations that turn `before` into `after`. */
export function patchOf(before: Json, after: Json): readonly Operation[] {
  return [...changes(before, after, "")];
}

function* changes(before: Json, after: Json, path: string): Generator<Operation> {
  if (isDeepStrictEqual(before, after)) return;
  if (isObject(before) && isObject(after)) yield* ofObjects(before, after, path);
  else if (Array.isArray(before) && Array.isArray(after)) yield* ofLists(before, after, path);
  else yield { op: "replace", path, value: after };
}

function* ofObjects(before: JsonObject, after: JsonObject, path: string): Generator<Operation> {
  for (const key of Object.keys(before)) {
    if (!Object.hasOwn(after, key)) yield { op: "remove", path: `${path}/${escaped(key)}` };
  }
  for (const [key, value] of Object.entries(after)) {
    const here = `${path}/${escaped(key)}`;
    const old = Object.hasOwn(before, key) ? before[key] : undefined;
    if (old === undefined) yield { op: "add", path: here, value };
    else yield* changes(old, value, here);
  }
}

/** Adds items at the front or the end; replaces a list that lost items. */
function* ofLists(
  before: readonly Json[],
  after: readonly Json[],
  path: string,
): Generator<Operation> {
  const more = after.length - before.length;
  if (more < 0) {
    yield { op: "replace", path, value: after };
    return;
  }
  const isBehind = more > 0 && isDeepStrictEqual(after.slice(more), before);
  if (isBehind) {
    for (const [at, value] of after.slice(0, more).entries()) {
      yield { op: "add", path: `${path}/${at}`, value };
    }
    return;
  }
  for (const [at, value] of after.entries()) {
    const old = before[at];
    if (old === undefined) yield { op: "add", path: `${path}/-`, value };
    else yield* changes(old, value, `${path}/${at}`);
  }
}

/** RFC 6901 §3. */
function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
