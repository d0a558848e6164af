// What real callers sent to a server with the fuzzed services, from the folder beside this file.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Recording, recordingOf } from "../kit/fuzz-break.ts";

export const FOLDER = join(import.meta.dirname, "recordings");

export function recordings(): readonly Recording[] {
  const files = globSync("*.bin", { cwd: FOLDER }).sort();
  if (files.length === 0) throw new Error(`no recordings in ${FOLDER}`);
  return files.map((file) => recordingOf(readFileSync(join(FOLDER, file))));
}
