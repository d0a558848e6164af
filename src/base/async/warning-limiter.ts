// Writes at most one warning a minute for each message, since peers can cause events faster than anyone can read them.

import type { Clock } from "../clock.ts";
import type { Log, LogFields } from "../log.ts";

const LINE_EVERY_MS = 60_000;

export class WarningLimiter {
  readonly #clock: Pick<Clock, "now">;
  readonly #log: Pick<Log, "warn">;
  /** By message. Messages repeat nothing that a peer sent, so there are few. */
  readonly #lines = new Map<string, { count: number; next: number }>();

  constructor(clock: Pick<Clock, "now">, log: Pick<Log, "warn">) {
    this.#clock = clock;
    this.#log = log;
  }

  /** `fields` gets the number of events since the last line, including this one. */
  warn(message: string, fields: (count: number) => LogFields): void {
    const line = this.#lines.get(message) ?? { count: 0, next: Number.NEGATIVE_INFINITY };
    this.#lines.set(message, line);
    line.count++;
    const now = this.#clock.now();
    if (now < line.next) return;
    line.next = now + LINE_EVERY_MS;
    this.#log.warn(fields(line.count), message);
    line.count = 0;
  }
}
