// What one connection and its streams are given time for: looked at in sweeps, as one timer for all connections
// costs nothing per call.

import type { Connection } from "./connection.ts";
import { ERROR } from "./frames.ts";
import { EARLY_REPLY_MS, FAREWELL_MS, PING_AFTER_MS, PING_ANSWER_MS } from "./limits.ts";
import type { H2Stream } from "./stream.ts";

/** In ms; 0 = no limit. */
export interface Patience {
  /** For a frame or a header block to become whole. */
  readonly headers: number;
  /** For a request to become whole. */
  readonly request: number;
  /** For a reply to be taken by the peer, or any byte of it. */
  readonly reply: number;
}

const MOST_MS = 1_000;
const LEAST_MS = 20;

/** How often to look, so that nothing is noticed later than a quarter over its time. */
export function sweepEvery({ headers, request, reply }: Patience): number {
  const limits = [headers, request, reply].filter((ms) => ms > 0).map((ms) => ms / 4);
  return Math.max(LEAST_MS, Math.min(MOST_MS, ...limits));
}

export class Watch {
  readonly #connection: Connection;
  readonly #patience: Patience;
  readonly #every: number;
  /** Sweeps after which EARLY_REPLY_MS have passed for sure. */
  readonly #early: number;
  #midway = 0;
  #midwaySweeps = 0;
  /** Bytes that the peer is to have taken, and for how many sweeps it has had them to take. */
  #owed = 0;
  #owedSweeps = 0;
  #leavingSweeps = 0;

  constructor(connection: Connection, patience: Patience, every: number) {
    this.#connection = connection;
    this.#patience = patience;
    this.#every = every;
    this.#early = 1 + Math.ceil(EARLY_REPLY_MS / every);
  }

  /** False when the peer is not there any more and the connection is to be destroyed. */
  sweep(): boolean {
    const connection = this.#connection;
    connection.out.takeBack();
    // While we do not read, nothing that is late is the peer's doing, but that it does not read either.
    if (connection.deaf) return this.#reads();
    connection.now++;
    connection.guard.refill(this.#every / 1_000);
    if (connection.leaving && this.#leavingSweeps++ * this.#every >= FAREWELL_MS) connection.name();
    connection.stopSenders(connection.now - this.#early + 1);
    this.#headers();
    for (const stream of connection.streams.live.values()) this.#stream(stream);
    return this.#reads() && this.#answers();
  }

  #headers(): void {
    const { midway } = this.#connection;
    this.#midwaySweeps = midway !== 0 && midway === this.#midway ? this.#midwaySweeps + 1 : 0;
    this.#midway = midway;
    if (this.#over(this.#midwaySweeps, this.#patience.headers)) {
      this.#connection.fail(ERROR.calm, "slow_headers", "a frame did not become whole in time");
    }
  }

  #stream(stream: H2Stream): void {
    if (!stream.heard) this.#request(stream);
    if (stream.waits && this.#over(++stream.stuck, this.#patience.reply)) {
      this.#connection.fault("slow_reader");
      stream.break(ERROR.cancel);
    }
  }

  #request(stream: H2Stream): void {
    const { now } = this.#connection;
    const begun = stream.exchange?.begun ?? 1;
    if (begun !== stream.begun) {
      stream.begun = begun;
      stream.since = now - 1;
    }
    if (begun === 0 || !this.#over(now - stream.since, this.#patience.request)) return;
    if (stream.exchange?.slow() === true) this.#connection.fault("slow_body");
  }

  /** Whether the peer takes what was written to its socket, all of it in time and not just a byte now and then. */
  #reads(): boolean {
    const { out } = this.#connection;
    if (out.taken >= this.#owed) {
      this.#owed = out.given;
      this.#owedSweeps = 0;
    } else this.#owedSweeps++;
    if (!this.#over(this.#owedSweeps, this.#patience.reply)) return true;
    this.#connection.fault("slow_reader");
    return false;
  }

  /** Whether a peer that has long been silent answers a ping. */
  #answers(): boolean {
    const connection = this.#connection;
    const silent = (connection.now - connection.heardAt) * this.#every;
    if (silent >= PING_AFTER_MS) connection.ask();
    if (silent < PING_AFTER_MS + PING_ANSWER_MS) return true;
    connection.fault("silent");
    return false;
  }

  #over(sweeps: number, ms: number): boolean {
    return ms > 0 && sweeps * this.#every > ms;
  }
}
