// Enforces the timeouts of one connection and its streams in periodic sweeps: one timer for all connections costs
// nothing per call.

import { ERROR_CODE } from "../frames/format.ts";
import {
  EARLY_RESET_DELAY_MS,
  GOAWAY_DELAY_MS,
  PING_AFTER_MS,
  PING_TIMEOUT_MS,
} from "../limits.ts";
import type { H2Stream } from "../streams/stream.ts";
import type { Connection } from "./connection.ts";

/** Timeouts in ms; 0 = no limit. */
export interface Http2Timeouts {
  /** For a frame or a field block to become complete. */
  readonly frame: number;
  /** For a request to become complete. */
  readonly request: number;
  /** For the peer to read a reply completely. */
  readonly reply: number;
  /** For a connection without calls. */
  readonly idle: number;
}

const MAX_SWEEP_MS = 1_000;
const MIN_SWEEP_MS = 20;

/** Milliseconds between sweeps: a timeout is noticed at most a quarter too late. */
export function sweepInterval({ frame, request, reply, idle }: Http2Timeouts): number {
  const limits = [frame, request, reply, idle].filter((ms) => ms > 0).map((ms) => ms / 4);
  return Math.max(MIN_SWEEP_MS, Math.min(MAX_SWEEP_MS, ...limits));
}

export class ConnectionMonitor {
  readonly #connection: Connection;
  readonly #timeouts: Http2Timeouts;
  readonly #intervalMs: number;
  /** Number of sweeps after which EARLY_RESET_DELAY_MS has certainly passed. */
  readonly #earlyReplySweeps: number;
  #partialUnit = 0;
  #partialSweeps = 0;
  /** The position in the output that the peer must reach next, and the number of sweeps that it has had. */
  #awaitedBytes = 0;
  #awaitedSweeps = 0;
  #goAwaySweeps = 0;

  constructor(connection: Connection, timeouts: Http2Timeouts, intervalMs: number) {
    this.#connection = connection;
    this.#timeouts = timeouts;
    this.#intervalMs = intervalMs;
    this.#earlyReplySweeps = 1 + Math.ceil(EARLY_RESET_DELAY_MS / intervalMs);
  }

  /** Checks the connection once. Returns false if the peer is gone and the connection must be destroyed. */
  sweep(): boolean {
    const connection = this.#connection;
    connection.output.reclaimChunks();
    // While reading is paused, only unread output counts: we cause every other delay ourselves.
    if (connection.readingPaused) return this.#acceptsOutput();
    connection.sweep++;
    connection.budget.refill(this.#intervalMs / 1_000);
    if (connection.goAwayPending && this.#goAwaySweeps++ * this.#intervalMs >= GOAWAY_DELAY_MS)
      connection.completeGoAway();
    const { idle } = this.#timeouts;
    if (
      connection.streams.empty &&
      !connection.awaitsTurn &&
      this.#exceeds(connection.sweep - connection.lastCallSweep, idle)
    )
      connection.beginGoAway();
    connection.resetEarlyReplied(connection.sweep - this.#earlyReplySweeps + 1);
    // The missing part of a frame or request may be queued.
    if (!connection.awaitsTurn) {
      this.#checkPartialUnit();
      for (const stream of connection.streams.open()) this.#checkStream(stream);
    }
    return this.#acceptsOutput() && this.#answersPing();
  }

  #checkPartialUnit(): void {
    const { partialUnit } = this.#connection;
    this.#partialSweeps =
      partialUnit !== 0 && partialUnit === this.#partialUnit ? this.#partialSweeps + 1 : 0;
    this.#partialUnit = partialUnit;
    if (this.#exceeds(this.#partialSweeps, this.#timeouts.frame)) {
      this.#connection.fail(
        ERROR_CODE.enhanceYourCalm,
        "slow_headers",
        "a frame or field block was not completed in time",
      );
    }
  }

  #checkStream(stream: H2Stream): void {
    if (!stream.remoteClosed) this.#checkRequest(stream);
    if (stream.hasPendingData && this.#exceeds(++stream.blockedSweeps, this.#timeouts.reply)) {
      this.#connection.fault("slow_reader");
      stream.abort(ERROR_CODE.cancel);
    }
  }

  #checkRequest(stream: H2Stream): void {
    const { sweep } = this.#connection;
    const part = stream.exchange?.incompletePart ?? 1;
    if (part !== stream.pendingPart) {
      stream.pendingPart = part;
      stream.pendingSince = sweep - 1;
    }
    if (part === 0 || !this.#exceeds(sweep - stream.pendingSince, this.#timeouts.request)) return;
    if (stream.exchange?.timedOut() === true) this.#connection.fault("slow_body");
  }

  /** True if the peer reads its socket: all output in time, not just a byte now and then. */
  #acceptsOutput(): boolean {
    const { output } = this.#connection;
    if (output.bytesAccepted >= this.#awaitedBytes) {
      this.#awaitedBytes = output.bytesWritten;
      this.#awaitedSweeps = 0;
    } else this.#awaitedSweeps++;
    if (!this.#exceeds(this.#awaitedSweeps, this.#timeouts.reply)) return true;
    this.#connection.fault("slow_reader");
    return false;
  }

  /** True if a peer that has been silent for long answers a PING. */
  #answersPing(): boolean {
    const connection = this.#connection;
    const silent = (connection.sweep - connection.lastReadSweep) * this.#intervalMs;
    if (silent >= PING_AFTER_MS) connection.ping();
    if (silent < PING_AFTER_MS + PING_TIMEOUT_MS) return true;
    connection.fault("silent");
    return false;
  }

  #exceeds(sweeps: number, ms: number): boolean {
    return ms > 0 && sweeps * this.#intervalMs > ms;
  }
}
