// What the `policy` commands share: documents read from files and compiled as the controller would.

import { createHash } from "node:crypto";
import { parse } from "node:path";
import { Fault } from "#base/fault.ts";
import { readTextFile } from "#host/text-file.ts";
import { compileSet, type PolicySet } from "#policy/set.ts";
import type { Dialect } from "#promql/result.ts";

/** As much as the controller reads of one document. */
const MAX_BYTES = 4 * 1024 * 1024;

/** What may lie beside policies in their directory, and is none: a shell's `*.yaml` names it too. */
const DYNAMIC = /\.dynamic\.(?:ya?ml|json)$/;

/** Compiles files as one set. A Fault INVALID_ARGUMENT when there are none or one cannot be read. */
export async function compileFiles(
  command: string,
  files: readonly string[],
  queries = "prometheus",
): Promise<PolicySet> {
  if (files.length === 0) {
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one FILE, got none`);
  }
  const policies = files.filter((file) => !DYNAMIC.test(file));
  if (policies.length === 0) {
    const got = "only dynamic configuration, which is judged beside its policy";
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one policy, got ${got}`);
  }
  const texts = await Promise.all(
    policies.map(async (source) => ({
      source,
      stem: parse(source).name,
      text: await readTextFile(source, MAX_BYTES),
    })),
  );
  return compileSet(texts, { digest, queries: dialectOf(queries) });
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function dialectOf(name: string): Dialect {
  if (name === "own" || name === "prometheus") return name;
  const got = JSON.stringify(name);
  throw new Fault("INVALID_ARGUMENT", `--queries: wanted prometheus or own, got ${got}`);
}
