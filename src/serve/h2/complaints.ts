// Says in the log who breaks the rules and bounds of HTTP/2. Counters have every fault but no peer, and a peer can
// make faults faster than anybody can read, so one line a minute stands for all of them.

import type { Clock } from "#base/clock.ts";
import type { Http2Fault, PortLog } from "../settings.ts";

const EVERY_MS = 60_000;

export class Complaints {
  readonly #clock: Clock;
  readonly #log: PortLog;
  /** Faults since the last line, the one at hand among them. */
  #count = 0;
  #next = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, log: PortLog) {
    this.#clock = clock;
    this.#log = log;
  }

  /** `peer` is an address without its port; "" on a Unix socket. */
  about(fault: Http2Fault, peer: string): void {
    this.#count++;
    const now = this.#clock.now();
    if (now < this.#next) return;
    this.#next = now + EVERY_MS;
    const from = peer === "" ? "a Unix socket" : peer;
    this.#log.warn("a peer broke a rule or a bound of HTTP/2", {
      fault,
      peer: from,
      faults_since_last_line: this.#count,
    });
    this.#count = 0;
  }
}
