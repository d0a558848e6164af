// The interface of a connection for the handlers of incoming frames, which reset streams that broke the protocol.

import type { Http2Fault } from "#base/server-meter.ts";
import type { H2Stream, StreamContext } from "../streams/stream.ts";
import type { StreamTable } from "../streams/stream-table.ts";
import type { RateBudget } from "./rate-budget.ts";

export interface ReceiveContext extends StreamContext {
  readonly streams: StreamTable;
  readonly budget: RateBudget;
  /** The current sweep of the transport. */
  readonly sweep: number;
  /** The last stream id in our GOAWAY; the largest possible id before that. */
  readonly lastStreamId: number;
  /** True if one more call that counts as this many bytes may begin. */
  hasRoomForCall(bytes: number): boolean;
  /** Tells the peer to open no more calls than it has now, until there is room. */
  limitCalls(): void;
  /** The peer acknowledged a PING with this payload. */
  pingAcknowledged(payload: number): void;
  /** The peer has reset a stream that was answered completely. */
  replyRejected(id: number): void;
  /** The peer announced that it will make no more calls. */
  goAwayReceived(): void;
}

/** Resets a stream that was never opened, or closed long ago. */
export function resetClosedStream(
  connection: ReceiveContext,
  id: number,
  code: number,
  fault: Http2Fault,
): void {
  const { frames, streams, budget } = connection;
  connection.fault(fault);
  frames.rstStream(id, code);
  streams.recordReset(id);
  budget.streamError();
}

/** Ends a stream on which the peer broke the protocol. */
export function abortStream(
  connection: ReceiveContext,
  stream: H2Stream,
  code: number,
  fault: Http2Fault,
): void {
  connection.fault(fault);
  stream.abort(code);
  connection.budget.streamError();
}
