// Keys that are deprecated or misspelt, and canonical JSON.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { parse } from "yaml";
import { formatPath, type Path } from "#policy/document/tree.ts";
import type { Message, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { canonicalJson } from "#policy/message.ts";
import { rulesOf } from "../../kit/sluice/stored.ts";
import { compiled, findings } from "../kit.ts";

test("the deprecated list of a matcher counts only where the current one is empty", () => {
  const one = (key: string) => `[{key: ${key}, operator: Exists}]`;
  const keys = (matcher: string) => {
    const policy = compiled(
      `resources: {flow_control: {flux_meters: {m: {selectors: [{control_point: x, label_matcher: {${matcher}}}]}}}}`,
    );
    assert.equal(policy.warnings.length, 1);
    return rulesOf(policy)[0]?.selectors[0]?.matcher.list.map(({ key }) => key);
  };
  assert.deepEqual(keys(`match_expressions: ${one("old")}`), ["old"]);
  assert.deepEqual(keys(`match_expressions: ${one("old")}, match_list: ${one("new")}`), ["new"]);
});

/** Paths of all keys of a document that are defined by the tables. */
function* keysOf(message: Message, value: object, path: Path): Generator<Path> {
  for (const [name, inner] of Object.entries(value)) {
    yield [...path, name];
    const type = message.fields[name]?.type;
    if (type !== undefined) yield* keysIn(type, inner, [...path, name]);
  }
}

function* keysIn(type: Type, value: unknown, path: Path): Generator<Path> {
  if (typeof value !== "object" || value === null) return;
  if (type.kind === "message") yield* keysOf(type.of(), value, path);
  if (type.kind !== "list" && type.kind !== "map") return;
  for (const [key, inner] of Object.entries(value)) {
    yield* keysIn(type.of.type, inner, [...path, type.kind === "list" ? Number(key) : key]);
  }
}

/** The document with one key misspelt. */
function renamed(value: unknown, [step, ...rest]: Path, name: string): unknown {
  if (Array.isArray(value)) {
    return value.map((item, at) => (at === step ? renamed(item, rest, name) : item));
  }
  return Object.fromEntries(
    Object.entries(value as object).map(([key, inner]) => {
      if (key !== step) return [key, inner];
      return rest.length === 0 ? [name, inner] : [key, renamed(inner, rest, name)];
    }),
  );
}

test("a misspelt key is always refused, with its path", () => {
  const root = "test/cases/policy";
  const documents = readdirSync(root).map((name): unknown =>
    parse(readFileSync(`${root}/${name}/policy.yaml`, "utf8")),
  );
  const edit = fc.record({
    document: fc.constantFrom(...documents),
    which: fc.nat(),
    at: fc.nat(),
    letter: fc.constantFrom("", "x", "_", "A", "0", "-", " "),
    keep: fc.boolean(),
  });
  fc.assert(
    fc.property(edit, ({ document, which, at, letter, keep }) => {
      const paths = [...keysOf(policy, document as object, [])];
      const path = paths[which % paths.length] ?? [];
      const key = String(path.at(-1));
      const cut = at % key.length;
      const other = key.slice(0, cut) + letter + key.slice(keep ? cut : cut + 1);
      fc.pre(other !== key && !paths.some((known) => known.at(-1) === other));
      const found = findings(JSON.stringify(renamed(document, path, other)));
      const wanted = formatPath([...path.slice(0, -1), other]);
      assert.ok(
        found.some((finding) => finding.path === wanted && finding.got.includes("unknown key")),
        `${wanted}: ${JSON.stringify(found)}`,
      );
    }),
    { numRuns: 300 },
  );
});

test("canonical JSON does not depend on key order, and distinguishes special numbers", () => {
  const left = {
    b: [1n, Number.NaN, -0],
    a: new Map([
      ["y", 1],
      ["x", 2],
    ]),
    c: undefined,
  };
  const right = {
    a: new Map([
      ["x", 2],
      ["y", 1],
    ]),
    b: [1n, Number.NaN, 0],
  };
  assert.equal(canonicalJson(left), canonicalJson(right));
  assert.equal(canonicalJson(left), '{"a":{"x":2,"y":1},"b":["1","NaN",0]}');
  assert.notEqual(canonicalJson({ a: 1 }), canonicalJson({ a: "1" }));
});
