// The `--policies DIR` flag, which may be repeated, of the commands that run a controller.

import { readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { Fault, systemErrorText } from "#base/fault.ts";

/** The flag, for `readArgs`. */
export const POLICIES = { policies: { type: "string", multiple: true } } as const;

/** The directories, each once. A Fault INVALID_ARGUMENT when one cannot be read. */
export async function policyDirectories(paths: readonly string[] = []): Promise<readonly string[]> {
  // Checked before anything starts, because only here the message can name the flag.
  for (const path of paths) {
    await readdir(path).catch((thrown: unknown) => {
      const wanted = `--policies: wanted a directory that can be read at ${path}`;
      throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
    });
  }
  // The same directory twice would seem to have every policy twice.
  return [...new Map(paths.map((path) => [resolve(path), path])).values()];
}
