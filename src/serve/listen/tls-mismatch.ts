// Records and logs clients that speak TLS to a port without TLS, or cleartext to a port with TLS. Such a client fails open
// unnoticed: an SDK takes the closed connection for an agent that is away, and lets its requests pass.

import { WarningLimiter } from "#base/async/warning-limiter.ts";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { RefusedConnection } from "#base/server-meter.ts";

type Mismatch = Extract<RefusedConnection, "cleartext_on_tls" | "tls_on_cleartext">;

/** Ports of agents for each other always speak TLS. */
const MESSAGES: Readonly<Record<Mismatch, string>> = {
  tls_on_cleartext:
    "a client speaks TLS to this port, where TLS is off: switch it off in the client, or on here (server.tls.enabled)",
  cleartext_on_tls:
    "a client speaks cleartext to this port, where TLS is on: switch it on in the client",
};

/** The last connection of this kind. */
export interface TlsMismatch {
  readonly message: string;
  /** Address without port; "a Unix socket" where there is none. */
  readonly peer: string;
  /** On the monotonic clock. */
  readonly at: number;
}

export class TlsMismatches {
  readonly #clock: Clock;
  readonly #warnings: WarningLimiter;
  #last: TlsMismatch | undefined;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#warnings = new WarningLimiter(clock, log);
  }

  get last(): TlsMismatch | undefined {
    return this.#last;
  }

  record(why: Mismatch, remoteAddress: string | undefined): void {
    const peer = remoteAddress === undefined ? "a Unix socket" : canonicalAddress(remoteAddress);
    const message = MESSAGES[why];
    this.#last = { message, peer, at: this.#clock.now() };
    this.#warnings.warn(message, (count) => ({ peer, refused_since_last_line: count }));
  }
}
