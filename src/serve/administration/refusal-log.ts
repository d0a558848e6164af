// Logs who is refused administration and why. The metrics count every refusal by its status but name no peer, and a peer
// can be refused faster than anyone can read, so at most one line per minute is written for each reason.

import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";
import type { Log } from "#base/log.ts";

const LINE_EVERY_MS = 60_000;

interface Reason {
  /** Refusals since the last line, including the current one. */
  count: number;
  next: number;
}

export class RefusalLog {
  readonly #clock: Clock;
  readonly #log: Pick<Log, "warn">;
  /** By the message of the refusal: there are half a dozen, none of which repeats what the caller sent. */
  readonly #reasons = new Map<string, Reason>();

  constructor(clock: Clock, log: Pick<Log, "warn">) {
    this.#clock = clock;
    this.#log = log;
  }

  record({ message }: Fault, { method, peer }: Pick<Call, "method" | "peer">): void {
    const reason = this.#reasons.get(message) ?? { count: 0, next: Number.NEGATIVE_INFINITY };
    this.#reasons.set(message, reason);
    reason.count++;
    const now = this.#clock.now();
    if (now < reason.next) return;
    reason.next = now + LINE_EVERY_MS;
    this.#log.warn(
      {
        method,
        peer: peer === "" ? "a Unix socket" : peer,
        refused_since_last_line: reason.count,
      },
      `refused a request of administration: ${message}`,
    );
    reason.count = 0;
  }
}
