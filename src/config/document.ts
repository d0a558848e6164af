// Reads a YAML file, or the JSON of a variable, against a table: every node keeps its line and column, and
// everything that is not a known key with a sound value is a fault.

import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { nearest } from "#base/near.ts";
import type { Collected, Origin } from "./collect.ts";
import type { LeafRow, Table } from "./row.ts";
import { joined } from "./tree.ts";
import { gotOf, judge } from "./value.ts";

/** How positions of a text are named: `file:3:7`, or the variable with its column. */
type Placing = (line: number, column: number) => string;

interface Reading {
  readonly into: Collected;
  readonly source: Origin["source"];
  readonly document: Document;
  readonly where: (node: unknown) => string;
}

/** Reads a YAML file's text; positions are `file:line:column`. */
export function readYaml(into: Collected, table: Table, file: string, text: string): void {
  readText(into, table, "", "file", (line, column) => `${file}:${line}:${column}`, text);
}

/** Reads the JSON text of a variable for the object at `path`. */
export function readJson(
  into: Collected,
  target: { readonly table: Table; readonly path: string },
  origin: Origin,
  text: string,
): void {
  const { table, path } = target;
  readText(into, table, path, origin.source, jsonPlacing(origin, text), text);
}

/** Reads the JSON text of a variable for one key: a map or a list of objects. */
export function readJsonLeaf(
  into: Collected,
  target: { readonly row: LeafRow; readonly path: string },
  origin: Origin,
  text: string,
): void {
  const reading = open(into, target.path, origin.source, jsonPlacing(origin, text), text);
  if (reading === undefined) return;
  readLeaf(reading, target.row, target.path, reading.document.contents, origin.where);
}

function jsonPlacing(origin: Origin, text: string): Placing {
  const oneLine = !text.includes("\n");
  return (line, column) =>
    oneLine ? `${origin.where} at ${column}` : `${origin.where} at ${line}:${column}`;
}

function readText(
  into: Collected,
  table: Table,
  path: string,
  source: Origin["source"],
  placing: Placing,
  text: string,
): void {
  const reading = open(into, path, source, placing, text);
  if (reading === undefined) return;
  const { contents } = reading.document;
  if (contents !== null) readObject(reading, table, path, contents, placing(1, 1));
}

/** Parses; texts that are not well formed become faults and give nothing. */
function open(
  into: Collected,
  path: string,
  source: Origin["source"],
  placing: Placing,
  text: string,
): Reading | undefined {
  const wanted = source === "file" ? "well-formed YAML" : "well-formed JSON";
  const lineCounter = new LineCounter();
  const at = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset);
    return placing(Math.max(1, line), Math.max(1, col));
  };
  const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: "error" });
  // The library's own messages may quote the text, secrets included: only the kind of fault is told.
  for (const { code, pos } of [...document.errors, ...document.warnings]) {
    into.fault(path, at(pos[0]), wanted, code.toLowerCase().replaceAll("_", " "));
  }
  if (document.errors.length + document.warnings.length > 0) return undefined;
  if (source !== "file" && !isJson(text)) {
    into.fault(path, placing(1, 1), wanted, "other text");
    return undefined;
  }
  const where = (node: unknown) => at(isNode(node) ? (node.range?.[0] ?? 0) : 0);
  const lost = danglingAliases(document);
  for (const alias of lost) into.fault(path, where(alias), "a known anchor", "an unknown one");
  return lost.length > 0 ? undefined : { into, source, document, where };
}

/** Aliases whose anchor is nowhere before them. */
function danglingAliases(document: Document): readonly Alias[] {
  const lost: Alias[] = [];
  visit(document, {
    Alias(_, alias) {
      if (alias.resolve(document) === undefined) lost.push(alias);
    },
  });
  return lost;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Follows an alias to what it names. */
function followed(reading: Reading, node: unknown): unknown {
  return isAlias(node) ? node.resolve(reading.document) : node;
}

function isNull(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function kindOfNode(node: unknown): string {
  if (isMap(node)) return "a map";
  if (isSeq(node)) return "a list";
  if (!isScalar(node)) return "nothing";
  return typeof node.value === "string" ? "text" : "a plain value";
}

function readObject(
  reading: Reading,
  table: Table,
  path: string,
  node: unknown,
  place: string,
): void {
  const found = followed(reading, node);
  if (isNull(found)) {
    reading.into.note("info", path, place, "null counts as not set");
  } else if (isMap(found)) {
    for (const pair of found.items) readPair(reading, table, path, pair);
  } else {
    const wanted = path === "" ? "a map of keys" : "an object";
    reading.into.fault(path, place, wanted, kindOfNode(found));
  }
}

function readPair(
  reading: Reading,
  table: Table,
  path: string,
  pair: YAMLMap["items"][number],
): void {
  const place = reading.where(pair.key);
  const key = isScalar(pair.key) ? String(pair.key.value) : "";
  const row = Object.hasOwn(table.rows, key) ? table.rows[key] : undefined;
  const here = joined(path, key);
  if (row === undefined) {
    reading.into.fault(here, place, knownKeys(table, key), "an unknown key");
  } else if (row.kind === "object") {
    readObject(reading, row.table, here, pair.value, place);
  } else {
    const value = pair.value === null ? place : reading.where(pair.value);
    readLeaf(reading, row, here, pair.value, value);
  }
}

function knownKeys(table: Table, key: string): string {
  const known = Object.keys(table.rows).sort();
  const meant = nearest(key, known);
  return meant === undefined ? `one of ${known.join(", ")}` : `a known key: did you mean ${meant}?`;
}

function readLeaf(
  reading: Reading,
  row: LeafRow,
  path: string,
  node: unknown,
  place: string,
): void {
  const { into } = reading;
  const found = followed(reading, node);
  const origin: Origin = { source: reading.source, where: place };
  if (row.deprecated !== undefined) into.note("warn", path, place, `deprecated: ${row.deprecated}`);
  if (isNull(found)) {
    into.note("info", path, place, "null counts as not set");
    return;
  }
  if (row.kind === "objects" && isSeq(found)) {
    into.put(path, readItems(reading, row.table, path, found), origin);
    return;
  }
  const raw = plain(reading, found);
  const judged = judge(row, raw);
  if ("value" in judged) into.put(path, judged.value, origin);
  else into.fault(path, place, judged.wanted, gotOf(row, raw));
}

function readItems(
  reading: Reading,
  table: Table,
  path: string,
  list: YAMLSeq,
): readonly unknown[] {
  const items = list.items.map((item, at) => {
    const apart = { ...reading, into: reading.into.apart() };
    const here = `${path}[${at}]`;
    const place = reading.where(item);
    if (isNull(followed(reading, item))) reading.into.fault(here, place, "an object", "null");
    else readObject(apart, table, here, item, place);
    return apart.into.build(table, here, place);
  });
  return Object.freeze(items);
}

/** A node as plain data, as deep as any row needs (a map of lists); what is deeper stays a node. */
function plain(reading: Reading, node: unknown, depth = 0): unknown {
  const found = followed(reading, node);
  if (isScalar(found)) return found.value;
  if (depth > 2) return found;
  if (isSeq(found)) return found.items.map((item) => plain(reading, item, depth + 1));
  if (!isMap(found)) return found;
  return Object.fromEntries(
    found.items.map(({ key, value }) => [
      isScalar(key) ? String(key.value) : "",
      plain(reading, value, depth + 1),
    ]),
  );
}
