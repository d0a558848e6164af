// Reads a YAML file, or the JSON of a variable, against a table. Every node keeps its line and column, and everything but
// a known key with a valid value is a fault.

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
import { nearest } from "#base/text/spelling.ts";
import type { LeafRow, Table } from "../table/row.ts";
import { gotOf, validateValue } from "../table/value.ts";
import { joined } from "../tree.ts";
import type { Collected, ValueOrigin } from "./collected.ts";

/** Formats a position in a text: `file:3:7`, or the variable with its column. */
type FormatPosition = (line: number, column: number) => string;

/** A well-formed text. */
interface OpenedText {
  readonly into: Collected;
  readonly source: ValueOrigin["source"];
  readonly document: Document;
  /** The table of another process whose keys the text may hold as well. */
  readonly beside?: Table | undefined;
  readonly where: (node: unknown) => string;
}

/**
 * Reads a YAML file's text; positions are `file:line:column`. Keys that only `beside` has, the table of another process
 * that reads the same file, are skipped.
 */
export function readYaml(
  into: Collected,
  table: Table,
  file: string,
  text: string,
  beside?: Table,
): void {
  readText(into, table, "", "file", (line, column) => `${file}:${line}:${column}`, text, beside);
}

/** Reads the JSON text of a variable for the object at `path`. */
export function readJsonObject(
  into: Collected,
  target: { readonly table: Table; readonly path: string },
  origin: ValueOrigin,
  text: string,
): void {
  const { table, path } = target;
  readText(into, table, path, origin.source, jsonPosition(origin, text), text);
}

/** Reads the JSON text of a variable for one key: a map or a list of objects. */
export function readJsonLeaf(
  into: Collected,
  target: { readonly row: LeafRow; readonly path: string },
  origin: ValueOrigin,
  text: string,
): void {
  const opened = open(into, target.path, origin.source, jsonPosition(origin, text), text);
  if (opened === undefined) return;
  readLeaf(opened, target.row, target.path, opened.document.contents, origin.where);
}

function jsonPosition(origin: ValueOrigin, text: string): FormatPosition {
  const oneLine = !text.includes("\n");
  return (line, column) =>
    oneLine ? `${origin.where} at ${column}` : `${origin.where} at ${line}:${column}`;
}

function readText(
  into: Collected,
  table: Table,
  path: string,
  source: ValueOrigin["source"],
  positionOf: FormatPosition,
  text: string,
  beside?: Table,
): void {
  const opened = open(into, path, source, positionOf, text);
  if (opened === undefined) return;
  const { contents } = opened.document;
  if (contents === null) return;
  readObject({ ...opened, beside }, table, path, contents, positionOf(1, 1));
}

/** Parses a text. Returns undefined, after reporting faults, when it is not well formed. */
function open(
  into: Collected,
  path: string,
  source: ValueOrigin["source"],
  positionOf: FormatPosition,
  text: string,
): OpenedText | undefined {
  const wanted = source === "file" ? "well-formed YAML" : "well-formed JSON";
  const lineCounter = new LineCounter();
  const at = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset);
    return positionOf(Math.max(1, line), Math.max(1, col));
  };
  const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: "error" });
  // The messages of the parser may quote the text, secrets included, so only the kind of error is reported.
  for (const { code, message, pos } of [...document.errors, ...document.warnings]) {
    // The parser also reports a bracket that is never closed as bad indentation.
    const [, bracket] = /sufficiently indented and end with a ([\]}])$/.exec(message) ?? [];
    const missing = bracket === undefined ? "" : `no closing ${bracket}, or `;
    into.fault(path, at(pos[0]), wanted, missing + code.toLowerCase().replaceAll("_", " "));
  }
  if (document.errors.length + document.warnings.length > 0) return undefined;
  if (source !== "file" && !isJson(text)) {
    into.fault(path, positionOf(1, 1), wanted, "other text");
    return undefined;
  }
  const where = (node: unknown) => at(isNode(node) ? (node.range?.[0] ?? 0) : 0);
  const dangling = danglingAliases(document);
  for (const alias of dangling) into.fault(path, where(alias), "a known anchor", "an unknown one");
  return dangling.length > 0 ? undefined : { into, source, document, where };
}

/** Aliases without an anchor before them. */
function danglingAliases(document: Document): readonly Alias[] {
  const found: Alias[] = [];
  visit(document, {
    Alias(_, alias) {
      if (alias.resolve(document) === undefined) found.push(alias);
    },
  });
  return found;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The node itself or, for an alias, the node that it refers to. */
function resolved(opened: OpenedText, node: unknown): unknown {
  return isAlias(node) ? node.resolve(opened.document) : node;
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
  opened: OpenedText,
  table: Table,
  path: string,
  node: unknown,
  place: string,
): void {
  const found = resolved(opened, node);
  if (isNull(found)) {
    opened.into.note("info", path, place, "null counts as not set");
  } else if (isMap(found)) {
    for (const pair of found.items) readPair(opened, table, path, pair);
  } else {
    const wanted = path === "" ? "a map of keys" : "an object";
    opened.into.fault(path, place, wanted, kindOfNode(found));
  }
}

function readPair(
  opened: OpenedText,
  table: Table,
  path: string,
  pair: YAMLMap["items"][number],
): void {
  const place = opened.where(pair.key);
  const key = isScalar(pair.key) ? String(pair.key.value) : "";
  const row = Object.hasOwn(table.rows, key) ? table.rows[key] : undefined;
  const here = joined(path, key);
  if (row === undefined) {
    const others = rowsAt(opened.beside, path);
    if (Object.hasOwn(others, key)) return;
    const known = [...new Set([...Object.keys(table.rows), ...Object.keys(others)])];
    opened.into.fault(here, place, knownKeys(known, key), "an unknown key");
  } else if (row.kind === "object") {
    readObject(opened, row.table, here, pair.value, place);
  } else {
    const value = pair.value === null ? place : opened.where(pair.value);
    readLeaf(opened, row, here, pair.value, value);
  }
}

/** The rows of the object at a path of a table; none where it has no such object. */
function rowsAt(table: Table | undefined, path: string): Table["rows"] {
  let at = table;
  for (const key of path === "" ? [] : path.split(".")) {
    const row = at !== undefined && Object.hasOwn(at.rows, key) ? at.rows[key] : undefined;
    at = row?.kind === "object" ? row.table : undefined;
  }
  return at?.rows ?? {};
}

function knownKeys(known: readonly string[], key: string): string {
  const meant = nearest(key, known);
  return meant === undefined
    ? `one of ${known.toSorted().join(", ")}`
    : `a known key: did you mean ${meant}?`;
}

function readLeaf(
  opened: OpenedText,
  row: LeafRow,
  path: string,
  node: unknown,
  place: string,
): void {
  const { into } = opened;
  const found = resolved(opened, node);
  const origin: ValueOrigin = { source: opened.source, where: place };
  if (row.deprecated !== undefined) into.note("warn", path, place, `deprecated: ${row.deprecated}`);
  if (isNull(found)) {
    into.note("info", path, place, "null counts as not set");
    return;
  }
  if (row.kind === "objects" && isSeq(found)) {
    into.set(path, readItems(opened, row.table, path, found), origin);
    return;
  }
  const raw = plain(opened, found);
  const validated = validateValue(row, raw);
  if ("value" in validated) into.set(path, validated.value, origin);
  else {
    const source = isScalar(found) ? found.source : undefined;
    into.fault(path, place, validated.wanted, gotOf(row, raw, source));
  }
}

function readItems(
  opened: OpenedText,
  table: Table,
  path: string,
  list: YAMLSeq,
): readonly unknown[] {
  const items = list.items.map((item, at) => {
    const apart = { ...opened, into: opened.into.child() };
    const here = `${path}[${at}]`;
    const place = opened.where(item);
    if (isNull(resolved(opened, item))) opened.into.fault(here, place, "an object", "null");
    else readObject(apart, table, here, item, place);
    return apart.into.build(table, here, place);
  });
  return Object.freeze(items);
}

/** A node as plain data, as deep as any row needs (a map of lists). Deeper nodes stay nodes. */
function plain(opened: OpenedText, node: unknown, depth = 0): unknown {
  const found = resolved(opened, node);
  if (isScalar(found)) return found.value;
  if (depth > 2) return found;
  if (isSeq(found)) return found.items.map((item) => plain(opened, item, depth + 1));
  if (!isMap(found)) return found;
  return Object.fromEntries(
    found.items.map(({ key, value }) => [
      isScalar(key) ? String(key.value) : "",
      plain(opened, value, depth + 1),
    ]),
  );
}
