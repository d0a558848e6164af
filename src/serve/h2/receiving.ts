// What frames of a peer act on, and how its streams end for what it did.

import type { Http2Fault } from "../settings.ts";
import type { Guard } from "./guard.ts";
import type { H2Stream, Line } from "./stream.ts";
import type { Streams } from "./streams.ts";

/** The connection as those see it who read what the peer sends. */
export interface Receiving extends Line {
  readonly streams: Streams;
  readonly guard: Guard;
  /** In sweeps. */
  readonly now: number;
  /** The last stream that is ours, once we have said so. */
  readonly named: number;
  /** A ping of ours came back, with what it carried. */
  ponged(what: number): void;
  /** The peer will make no more calls. */
  peerLeaves(): void;
}

/** Answers a stream that was never opened or is long closed. */
export function refuse(connection: Receiving, id: number, code: number, fault: Http2Fault): void {
  const { frames, streams, guard } = connection;
  connection.fault(fault);
  frames.reset(id, code);
  // Who was answered early is told to stop by this, and not once more.
  streams.left(id);
  streams.noteEnd(id, true);
  guard.broken();
}

/** Ends a stream that the peer broke. */
export function breakOff(
  connection: Receiving,
  stream: H2Stream,
  code: number,
  fault: Http2Fault,
): void {
  connection.fault(fault);
  stream.break(code);
  connection.guard.broken();
}
