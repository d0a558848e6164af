// What commands that take policies share: documents read from files, directories or standard input, and
// compiled as the controller would.

import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join, parse } from "node:path";
import { Fault } from "#base/fault.ts";
import { readTextFile } from "#host/text-file.ts";
import { compileSet, type PolicySet, type PolicyText } from "#policy/set.ts";
import type { Dialect } from "#promql/result.ts";
import { readInput, type Terminal } from "./command.ts";

/** As much as the controller reads of one document. */
export const MAX_BYTES = 4 * 1024 * 1024;

/** What the controller reads of a directory. */
const DOCUMENT = /^[^.].*\.(?:ya?ml|json)$/;

/** What may lie beside policies in their directory, and is none: a shell's `*.yaml` names it too. */
const DYNAMIC = /\.dynamic\.(?:ya?ml|json)$/;

/** Compiles what was named as one set. A Fault INVALID_ARGUMENT when there is none or one cannot be read. */
export async function compileFiles(
  command: string,
  names: readonly string[],
  terminal: Terminal,
  queries?: string,
): Promise<PolicySet> {
  if (names.length === 0) {
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one FILE, got none`);
  }
  const inputs = names.filter((name) => name === "-").length;
  if (inputs > 1) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `${command}: wanted - once at most, got it ${inputs} times`,
    );
  }
  const dialect = dialectOf(queries);
  const files = (await Promise.all(names.map(filesOf))).flat();
  const policies = files.filter((file) => !DYNAMIC.test(file));
  if (policies.length === 0) {
    const got = "only dynamic configuration, which is judged beside its policy";
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one policy, got ${got}`);
  }
  const texts = await Promise.all(policies.map((file) => readPolicy(file, terminal)));
  return compileSet(texts, { digest, queries: dialect });
}

/** A directory stands for its documents. Whatever else cannot be read is told by who reads it. */
async function filesOf(name: string): Promise<readonly string[]> {
  const facts = name === "-" ? undefined : await stat(name).catch(() => undefined);
  if (facts?.isDirectory() !== true) return [name];
  const found = (await readdir(name)).filter((file) => DOCUMENT.test(file)).sort();
  if (found.length > 0) return found.map((file) => join(name, file));
  const wanted = "wanted at least one policy (*.yaml, *.yml, *.json) in the directory";
  throw new Fault("INVALID_ARGUMENT", `${name}: ${wanted}, got none`);
}

async function readPolicy(file: string, terminal: Terminal): Promise<PolicyText> {
  const text =
    file === "-" ? await readInput(terminal, MAX_BYTES) : await readTextFile(file, MAX_BYTES);
  // No YAML has one; what its reader says about the rest of such a file helps nobody.
  if (text.includes("\0")) {
    throw new Fault("INVALID_ARGUMENT", `${file}: wanted a policy as text, got a binary file`);
  }
  return file === "-"
    ? { source: "stdin", stem: "stdin", text }
    : { source: file, stem: parse(file).name, text };
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function dialectOf(name = "prometheus"): Dialect {
  if (name === "own" || name === "prometheus") return name;
  const got = JSON.stringify(name);
  throw new Fault("INVALID_ARGUMENT", `--queries: wanted prometheus or own, got ${got}`);
}
