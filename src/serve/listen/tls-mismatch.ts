// Remembers and logs clients that speak TLS to a port without TLS, or cleartext to a port with TLS. Such a client fails
// open unseen: an SDK takes the closed connection for an agent that is away, and lets its requests pass.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { RefusedConnection } from "#base/server-meter.ts";

/** A client can connect faster than anyone can read. */
const LINE_EVERY_MS = 60_000;

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
  readonly #log: Log;
  #last: TlsMismatch | undefined;
  /** Since the last line, including the current one. */
  #count = 0;
  #nextLine = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  get last(): TlsMismatch | undefined {
    return this.#last;
  }

  record(why: Mismatch, remoteAddress: string | undefined): void {
    const at = this.#clock.now();
    const peer = remoteAddress === undefined ? "a Unix socket" : canonicalAddress(remoteAddress);
    const message = MESSAGES[why];
    this.#last = { message, peer, at };
    this.#count++;
    if (at < this.#nextLine) return;
    this.#nextLine = at + LINE_EVERY_MS;
    this.#log.warn({ peer, refused_since_last_line: this.#count }, message);
    this.#count = 0;
  }
}
