// The guard against overload of an agent, as its operators see it: the status, the log and the metrics.

import { OverloadGuard, type OverloadLimits } from "#flow/overload/guard.ts";
import { computedTime, idleTime } from "#host/life/clock.ts";
import type { SluiceProcess } from "#process/process.ts";

/** Least time between two episodes that the log reports, ms. */
const REPORT_EVERY_MS = 10_000;

interface OverloadSettings extends OverloadLimits {
  readonly enabled: boolean;
}

/** Undefined where the configuration switches it off. */
export function guardOverload(
  { chance, clock, health, log, metrics, scope }: SluiceProcess,
  settings: OverloadSettings,
): OverloadGuard | undefined {
  // Not a part of readiness: all overloaded agents would lose their traffic at the same moment.
  const status = health.root.at("system", "overload");
  if (!settings.enabled) {
    status.ok("not watched: flow_control.overload.enabled is false");
    return undefined;
  }
  let reportedAt = Number.NEGATIVE_INFINITY;
  /** Checks that had been shed when the last report was made; undefined when the current episode is not reported. */
  let before: number | undefined;
  const guard = new OverloadGuard(settings, {
    clock,
    chance,
    idle: idleTime,
    computed: computedTime,
    changed(shedding) {
      const { inProgress, peak, shed } = guard;
      const ms = Math.round(peak);
      if (shedding) {
        status.fail(`overloaded since ${new Date(clock.wall()).toISOString()}: checks are shed`);
        if (clock.now() - reportedAt < REPORT_EVERY_MS) return;
        reportedAt = clock.now();
        // The check that is shed first is counted already.
        before ??= shed - 1;
        const why = `the event loop is ${ms} ms behind, and ${inProgress} checks are in progress`;
        log.warn({ delay: ms, inProgress }, `overloaded, failure modes answer some checks: ${why}`);
      } else {
        status.ok("no check is shed");
        if (before === undefined) return;
        log.info({ shed: shed - before }, "not overloaded any more, all checks are judged");
        before = undefined;
      }
    },
  });
  status.ok("no check is shed");
  scope.add("overload", async () => guard.close());
  metrics.add({
    collect(to) {
      to.number("sluice_shed_share", [], guard.share);
      to.number("sluice_checks_in_progress", [], guard.inProgress);
    },
  });
  return guard;
}
