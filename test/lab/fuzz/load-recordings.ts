// Loads the recordings beside this file: bytes that real clients sent to a server with the fuzzed services.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseRecording, type Recording } from "./engine/mutate.ts";

export const FOLDER = join(import.meta.dirname, "recordings");

export function loadRecordings(): readonly Recording[] {
  const files = globSync("*.bin", { cwd: FOLDER }).sort();
  if (files.length === 0) throw new Error(`no recordings in ${FOLDER}`);
  return files.map((file) => parseRecording(readFileSync(join(FOLDER, file))));
}
