// Sorts the files of policy directories into policies and dynamic configurations, which are named `<policy>.dynamic.yaml` (or
// `.yml`, `.json`).

import { parse } from "node:path";
import type { JsonObject } from "#policy/compiled.ts";
import { Report } from "#policy/document/finding.ts";
import { plain } from "#policy/document/tree.ts";
import { policyOfDynamicFile, readDynamicFile } from "#policy/dynamic.ts";
import { findingLine } from "#policy/format.ts";
import type { PolicyText } from "#policy/set.ts";
import type { Documents } from "./directory.ts";

/** A file of dynamic configuration. */
export interface ConfigFile {
  readonly source: string;
  /** Undefined where the file has a fault. */
  readonly config: JsonObject | undefined;
}

/** A file of policies. */
export interface PolicyFile extends Omit<PolicyText, "text"> {
  readonly facts: string | undefined;
  /** Undefined for an unchanged file. */
  readonly text: string | undefined;
}

export interface SortedDocuments {
  readonly policies: readonly PolicyFile[];
  /** By policy name. */
  readonly dynamicConfigs: ReadonlyMap<string, ConfigFile>;
  /** Faults in files of dynamic configuration. */
  readonly faults: readonly string[];
}

export function sortDocuments(documents: Documents): SortedDocuments {
  const policies: PolicyFile[] = [];
  const dynamicConfigs = new Map<string, ConfigFile>();
  const faults: string[] = [];
  for (const [source, { facts, text }] of documents) {
    const file = parse(source);
    const name = policyOfDynamicFile(file.base);
    if (name === undefined) policies.push({ source, defaultName: file.name, facts, text });
    else if (dynamicConfigs.has(name)) {
      faults.push(`${source}: wanted one file for policy ${name}, got several`);
      dynamicConfigs.set(name, { source, config: undefined });
    } else {
      const report = new Report(source);
      const tree = readDynamicFile(text ?? "", report);
      faults.push(...report.findings.map(findingLine));
      const config = tree && (plain(tree) as JsonObject);
      dynamicConfigs.set(name, { source, config });
    }
  }
  return { policies, dynamicConfigs, faults };
}
