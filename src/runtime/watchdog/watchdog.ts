// Watches memory, and has garbage collected before a limit is reached: Node collects lazily, and the system ends a
// container that passes its limit.

import type { Log } from "#base/log.ts";
import type { JobSettings } from "../life/jobs.ts";
import { collectGarbage } from "../life/v8.ts";
import type { Probe } from "../status/health.ts";
import { type Policy, type PolicySettings, policyOf } from "./policy.ts";
import { cgroupUsage, processUsage, systemUsage, type UsageSource } from "./usage.ts";

/** `watchdog.memory` of the configuration. */
export interface WatchdogSettings {
  readonly cgroup: PolicySettings;
  readonly heap: PolicySettings & { readonly limit: number };
  readonly heap_profile: boolean;
  readonly job: JobSettings;
  readonly system: PolicySettings;
}

interface WatchdogOptions {
  readonly settings: WatchdogSettings;
  readonly liveness: Probe;
  readonly log: Log;
  /** Usage by kind, and the collector of garbage; the real ones unless a test passes its own. */
  readonly usage?: Readonly<Record<"heap" | "cgroup" | "system", UsageSource>>;
  readonly collect?: () => void;
  /** Called with `heap_profile` when usage stays above a threshold although garbage was collected. */
  readonly short?: () => void;
}

interface Watched {
  readonly kind: "heap" | "cgroup" | "system";
  readonly usage: UsageSource;
  readonly policy: Policy;
  threshold: number | undefined;
}

/** Adds the job `watchdog` to those of liveness, unless no policy is enabled. It never makes the process unhealthy. */
export function watchMemory(options: WatchdogOptions): void {
  const { settings, liveness, log, collect = collectGarbage } = options;
  const short = settings.heap_profile ? options.short : undefined;
  const sources = options.usage ?? {
    heap: processUsage(settings.heap.limit),
    cgroup: cgroupUsage(),
    system: systemUsage,
  };
  const watched: Watched[] = (["heap", "cgroup", "system"] as const).flatMap((kind) => {
    const policy = policyOf(settings[kind]);
    return policy === undefined
      ? []
      : [{ kind, usage: sources[kind], policy, threshold: undefined }];
  });
  if (watched.length === 0) return;
  liveness.jobs.add({
    name: "watchdog",
    settings: settings.job,
    run: () =>
      watched.map((each) => look(each, { collect, log, ...(short && { short }) })).join("; "),
  });
}

function look(
  watched: Watched,
  {
    collect,
    log,
    short,
  }: Required<Pick<WatchdogOptions, "collect" | "log">> & Pick<WatchdogOptions, "short">,
): string {
  const { kind, usage, policy } = watched;
  const before = usage();
  if (before === undefined) return `${kind}: no limit is known`;
  watched.threshold ??= policy(0, before.limit);
  if (before.used < watched.threshold)
    return `${kind}: ${shown(before.used)} of ${shown(before.limit)}`;
  collect();
  const after = usage() ?? before;
  if (after.used >= watched.threshold) short?.();
  // The last watermark is behind us when usage was above it, whatever is left after collecting.
  watched.threshold = policy(before.used, before.limit);
  const text = `${kind}: ${shown(before.used)} of ${shown(before.limit)}, ${shown(after.used)} after collecting garbage`;
  log.info({ kind, before: before.used, after: after.used, limit: before.limit }, text);
  return text;
}

function shown(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(0)} MiB`;
}
