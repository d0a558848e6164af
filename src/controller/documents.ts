// Files of a directory as what they are: policies, and dynamic configuration beside them, in files named
// `<policy>.dynamic.yaml` (or `.yml`, `.json`).

import { join, parse } from "node:path";
import type { JsonObject } from "#policy/compiled.ts";
import { Report } from "#policy/finding.ts";
import { parse as parseTrees } from "#policy/read.ts";
import { findingLine } from "#policy/report.ts";
import type { PolicyText } from "#policy/set.ts";
import { plain } from "#policy/tree.ts";
import type { Documents } from "./directory.ts";

export interface Sorted {
  readonly policies: readonly PolicyText[];
  /** By policy name; undefined where the file is at fault. */
  readonly dynamicConfigs: ReadonlyMap<string, JsonObject | undefined>;
  /** What is wrong with files of dynamic configuration. */
  readonly faults: readonly string[];
}

const DYNAMIC = /\.dynamic\.(?:ya?ml|json)$/;

export function sortDocuments(directory: string, documents: Documents): Sorted {
  const policies: PolicyText[] = [];
  const dynamicConfigs = new Map<string, JsonObject | undefined>();
  const faults: string[] = [];
  for (const [file, text] of documents) {
    const source = join(directory, file);
    if (!DYNAMIC.test(file)) {
      policies.push({ source, stem: parse(file).name, text });
      continue;
    }
    const name = file.replace(DYNAMIC, "");
    const read = dynamicConfigs.has(name)
      ? { why: [`${source}: wanted one file for policy ${name}, got several`] }
      : readConfig(source, text);
    if ("why" in read) {
      faults.push(...read.why);
      dynamicConfigs.set(name, undefined);
    } else dynamicConfigs.set(name, read.config);
  }
  return { policies, dynamicConfigs, faults };
}

/** An empty file is an empty object. */
function readConfig(
  source: string,
  text: string,
): { readonly config: JsonObject } | { readonly why: readonly string[] } {
  const report = new Report();
  const [tree, ...more] = parseTrees(text, report);
  if (report.faults > 0) {
    return { why: report.findings.map((of) => findingLine({ source, of })) };
  }
  if (more.length > 0) return { why: [`${source}: wanted one document, got several`] };
  if (tree === undefined) return { config: {} };
  if (tree.kind !== "map") return { why: [`${source}: wanted an object, got another value`] };
  return { config: plain(tree) as JsonObject };
}
