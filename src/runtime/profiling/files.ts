// Profiles as files: that of a whole run, and those that the watchdog takes when memory runs short.

import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { createFolder } from "../life/folder.ts";
import type { ProcessProfiler } from "./profiler.ts";

/** Number of earlier profiles that are kept beside the newest. */
const KEPT = 5;
/** Milliseconds for which allocations are sampled. */
const SAMPLED_MS = 10_000;
/** Milliseconds from one heap profile to the next: memory that runs short does so for a while. */
const PAUSE_MS = 600_000;

/** The directory of `profilers.profiles_path`; `default` is that of the service under the system log directory. */
export function profileDirectory(path: string, service: string): string {
  return path === "default" ? `/var/log/sluice/${service}/profiles` : path;
}

/** Writes `<kind>.prof`, renames the one before by the time, and deletes the oldest. */
export async function keepProfile(
  directory: string,
  kind: "cpu" | "heap",
  profile: Uint8Array,
  wallMs: number,
): Promise<string> {
  const newest = join(directory, `${kind}.prof`);
  const stamp = new Date(wallMs).toISOString().replaceAll(/[:.]/g, "-");
  await rename(newest, join(directory, `${kind}-${stamp}.prof`)).catch(() => undefined);
  await writeFile(newest, profile);
  const names = await readdir(directory);
  const rotated = names
    .filter((name) => name.startsWith(`${kind}-`) && name.endsWith(".prof"))
    .sort();
  for (const name of rotated.slice(0, -KEPT)) await rm(join(directory, name), { force: true });
  return newest;
}

interface HeapProfilesOptions {
  readonly directory: string;
  readonly profiler: ProcessProfiler;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
  /** Ends a profile that is being taken. */
  readonly signal: AbortSignal;
}

/** Returns a function that samples allocations for ten seconds and writes them, once in ten minutes at most. */
export function heapProfiles(options: HeapProfilesOptions): () => void {
  const { directory, profiler, clock, log, signal } = options;
  let nextAt = Number.NEGATIVE_INFINITY;
  const take = async () => {
    try {
      createFolder(directory);
      const profile = await profiler.allocations(SAMPLED_MS, signal);
      const path = await keepProfile(directory, "heap", profile, clock.wall());
      log.info({ path }, `what is allocated while memory is short: ${path}`);
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      log.warn({ error: thrown }, `no heap profile was written: ${message}`);
    }
  };
  return () => {
    if (clock.now() < nextAt) return;
    nextAt = clock.now() + PAUSE_MS;
    void take();
  };
}
