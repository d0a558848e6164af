// Sorts the files of a policy directory: policies, and dynamic configuration in files named
// `<policy>.dynamic.yaml` (or `.yml`, `.json`).

import { join, parse } from "node:path";
import type { JsonObject } from "#policy/compiled.ts";
import { Report } from "#policy/document/finding.ts";
import { plain } from "#policy/document/tree.ts";
import { policyOfDynamicFile, readDynamicFile } from "#policy/dynamic-file.ts";
import { findingLine } from "#policy/format.ts";
import type { PolicyText } from "#policy/set.ts";
import type { Documents } from "./directory.ts";

/** A file of dynamic configuration. */
export interface ConfigFile {
  readonly source: string;
  /** Undefined where the file has a fault. */
  readonly config: JsonObject | undefined;
}

export interface SortedDocuments {
  readonly policies: readonly PolicyText[];
  /** By policy name. */
  readonly dynamicConfigs: ReadonlyMap<string, ConfigFile>;
  /** Faults in files of dynamic configuration. */
  readonly faults: readonly string[];
}

export function sortDocuments(directory: string, documents: Documents): SortedDocuments {
  const policies: PolicyText[] = [];
  const dynamicConfigs = new Map<string, ConfigFile>();
  const faults: string[] = [];
  for (const [file, text] of documents) {
    const source = join(directory, file);
    const name = policyOfDynamicFile(file);
    if (name === undefined) policies.push({ source, defaultName: parse(file).name, text });
    else if (dynamicConfigs.has(name)) {
      faults.push(`${source}: wanted one file for policy ${name}, got several`);
      dynamicConfigs.set(name, { source, config: undefined });
    } else {
      const report = new Report();
      const tree = readDynamicFile(text, report);
      faults.push(...report.findings.map((of) => findingLine({ source, of })));
      const config = tree && (plain(tree) as JsonObject);
      dynamicConfigs.set(name, { source, config });
    }
  }
  return { policies, dynamicConfigs, faults };
}
