// Logs which peers violate the rules and limits of HTTP/2. The metrics count every fault but name no peer, and a peer
// can cause faults faster than anyone can read them, so at most one line per minute is written.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { Http2Fault } from "#base/server-meter.ts";

const LINE_EVERY_MS = 60_000;

export class FaultLog {
  readonly #clock: Clock;
  readonly #log: Log;
  /** Faults since the last line, including the current one. */
  #count = 0;
  #next = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  /** `peer` is an address without its port; "" for a Unix socket. */
  record(fault: Http2Fault, peer: string): void {
    this.#count++;
    const now = this.#clock.now();
    if (now < this.#next) return;
    this.#next = now + LINE_EVERY_MS;
    const from = peer === "" ? "a Unix socket" : peer;
    this.#log.warn(
      {
        fault,
        peer: from,
        faults_since_last_line: this.#count,
      },
      "a peer violated a rule or limit of HTTP/2",
    );
    this.#count = 0;
  }
}
