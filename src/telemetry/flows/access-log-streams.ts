// Counts the streams of Envoy's gRPC access log, and logs when some are refused, because reports are lost then.

import { Episodes } from "#base/async/episodes.ts";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";

/** Reasons to refuse a stream: its client has too many, or all clients together have. */
const REASONS = ["client", "all"] as const;
type Reason = (typeof REASONS)[number];

const QUIET_MS = 60_000;

export class AccessLogStreams implements MetricSource {
  readonly #refused: Record<Reason, number> = { client: 0, all: 0 };
  readonly #episodes: Episodes;
  #open = 0;

  constructor(clock: Clock, log: Log) {
    this.#episodes = new Episodes({
      clock,
      quietMs: QUIET_MS,
      began: (why) => {
        const who = why === "all" ? "all proxies together have" : "one proxy has";
        log.warn(
          {},
          `access log streams are refused, because ${who} too many: what they report is lost`,
        );
      },
      ended: (_why, times) => log.info({ times }, "access log streams are not refused any more"),
    });
  }

  opened(): void {
    this.#open++;
  }

  closed(): void {
    this.#open--;
  }

  refused(why: Reason): void {
    this.#refused[why]++;
    this.#episodes.happened(why);
  }

  collect(to: MetricSink): void {
    if (this.#open > 0) to.number("sluice_access_log_streams", [], this.#open);
    for (const why of REASONS) {
      const count = this.#refused[why];
      if (count > 0) to.number("sluice_access_log_streams_refused_total", [why], count);
    }
  }

  readonly close = async (): Promise<void> => this.#episodes.close();
}
