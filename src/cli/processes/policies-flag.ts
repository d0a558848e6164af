// The `--policies DIR` flag of the commands that run a controller.

import { readdir } from "node:fs/promises";
import { Fault, systemErrorText } from "#base/fault.ts";

/** The directory. A Fault INVALID_ARGUMENT when the flag is missing or the directory cannot be read. */
export async function policiesDirectory(path: string | undefined): Promise<string> {
  if (path === undefined) {
    const wanted = "--policies: wanted a directory of policy documents, got nothing";
    throw new Fault("INVALID_ARGUMENT", wanted);
  }
  // Checked before anything starts, because only here the message can name the flag.
  await readdir(path).catch((thrown: unknown) => {
    const wanted = `--policies: wanted a directory that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
  });
  return path;
}
