// Opens the overload guard of an agent, and shows it to operators in status, log and metrics.

import type { SluiceProcess } from "#daemon/process.ts";
import { OverloadGuard, type OverloadLimits } from "#flow/overload/guard.ts";
import { idleTime } from "#runtime/life/clock.ts";

/** Shortest time between two episodes that the log reports, ms. */
const REPORT_EVERY_MS = 10_000;

interface OverloadSettings extends OverloadLimits {
  readonly enabled: boolean;
}

/** Undefined where the configuration switches it off. */
export function guardOverload(
  {
    chance,
    clock,
    health,
    log,
    metrics,
    scope,
    settings: { server },
    readScheduler,
  }: SluiceProcess,
  settings: OverloadSettings,
): OverloadGuard | undefined {
  // Not a part of readiness: all overloaded agents would lose their traffic at the same moment.
  const status = health.root.at("system", "overload");
  if (!settings.enabled) {
    status.ok("not watched: flow_control.overload.enabled is false");
    return undefined;
  }
  const calm =
    server.grpc.transport === "grpc-js"
      ? "no check is shed. How long gRPC checks wait is not measured: server.grpc.transport is grpc-js"
      : "no check is shed";
  let reportedAt = Number.NEGATIVE_INFINITY;
  /** Checks that had been shed before the current episode; undefined when the log does not report it. */
  let before: number | undefined;
  const guard = new OverloadGuard(settings, {
    clock,
    chance,
    idle: idleTime,
    waited: () => readScheduler.takeMedianDelay(),
    changed(shedding) {
      const { inProgress, peak, shed } = guard;
      const ms = Math.round(peak);
      if (shedding) {
        status.fail(`overloaded since ${new Date(clock.wall()).toISOString()}: checks are shed`);
        if (clock.now() - reportedAt < REPORT_EVERY_MS) return;
        reportedAt = clock.now();
        // The first check of the episode is counted already.
        before ??= shed - 1;
        const why =
          ms > 0
            ? `callers waited for ${ms} ms until it was their turn`
            : `${inProgress} checks wait for other servers`;
        log.warn({ delay: ms, inProgress }, `overloaded, failure modes answer some checks: ${why}`);
      } else {
        status.ok(calm);
        if (before === undefined) return;
        log.info({ shed: shed - before }, "not overloaded any more, all checks are judged");
        before = undefined;
      }
    },
  });
  status.ok(calm);
  scope.add("overload", async () => guard.close());
  metrics.add({
    collect(to) {
      to.number("sluice_check_wait_seconds", [], guard.delay / 1_000);
      to.number("sluice_shed_share", [], guard.share);
      to.number("sluice_checks_in_progress", [], guard.inProgress);
    },
  });
  return guard;
}
