// Memory in use and its limit: of the process, its control group, and the machine.

import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";

export interface Usage {
  readonly used: number;
  readonly limit: number;
}

/** Undefined where it is not known, or has no limit. */
export type UsageSource = () => Usage | undefined;

const DEFAULT_HEAP_LIMIT = 256 * 1024 * 1024;

/** The memory of this process; `limit` 0 means 256 MiB. */
export function processUsage(limit: number): UsageSource {
  return () => ({ used: process.memoryUsage.rss(), limit: limit || DEFAULT_HEAP_LIMIT });
}

export const systemUsage: UsageSource = () => {
  const limit = totalmem();
  return { used: limit - freemem(), limit };
};

/** Files of versions 2 and 1, below the root of control groups as a container sees it. */
const FILES = [
  ["memory.current", "memory.max"],
  ["memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes"],
] as const;

export function cgroupUsage(root = "/sys/fs/cgroup"): UsageSource {
  return () => {
    for (const [current, most] of FILES) {
      const [used, limit] = [numberIn(`${root}/${current}`), numberIn(`${root}/${most}`)];
      // Version 1 writes a number near 2^63 where there is no limit, version 2 `max`.
      if (used !== undefined && limit !== undefined && limit <= totalmem()) return { used, limit };
    }
    return undefined;
  };
}

function numberIn(path: string): number | undefined {
  try {
    const text = readFileSync(path, "utf8").trim();
    return /^\d+$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
