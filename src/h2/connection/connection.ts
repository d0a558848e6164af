// One HTTP/2 connection from its preface to GOAWAY. It holds the state that its streams share and decides how it ends;
// the receiver handles incoming frames, and streams send their own replies.

import type { Duplex } from "node:stream";
import type { Held } from "#base/handler.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { Http2Fault } from "#base/server-meter.ts";
import type { RequestHandler, RequestHead } from "../exchange.ts";
import { ConnectionError } from "../frames/connection-error.ts";
import { DEFAULT_WINDOW, ERROR_CODE, MAX_WINDOW, SETTING } from "../frames/format.ts";
import { FrameReader } from "../frames/frame-reader.ts";
import { FrameWriter } from "../frames/frame-writer.ts";
import { type ChunkPool, Output } from "../frames/output.ts";
import { Encoder } from "../hpack/encoder.ts";
import {
  CONNECTION_RECEIVE_WINDOW,
  HEADER_TABLE_SIZE,
  MAX_BUFFERED_FOR_NEW_CALL,
  MAX_BUFFERED_PER_CONNECTION,
  MAX_CONCURRENT_CALLS,
  MAX_LIGHT_CONNECTION,
  STREAM_RECEIVE_WINDOW,
} from "../limits.ts";
import { WORK_BETWEEN_CLOCK_READINGS } from "../read-scheduler.ts";
import type { H2Stream, StreamEnd } from "../streams/stream.ts";
import { StreamTable } from "../streams/stream-table.ts";
import { UnconfirmedReplies } from "../unconfirmed-replies.ts";
import { RateBudget } from "./rate-budget.ts";
import type { ReceiveContext } from "./receive-context.ts";
import { FrameReceiver } from "./receiver.ts";

/** The dependencies that connections share with their transport. */
export interface ConnectionContext {
  readonly handleRequest: RequestHandler;
  /** True if requests with this method and path get a reply even if they are malformed. */
  readonly repliesUnread: (head: RequestHead) => boolean;
  readonly chunkPool: ChunkPool;
  /** Largest header section of a request in bytes. */
  readonly maxHeaderList: number;
  /** Most header fields of a request. */
  readonly maxFields: number;
  fault(fault: Http2Fault, peer: string): void;
  /**
   * Counts buffered bytes against the limit for all connections. `light`: the connection buffers little and may use the
   * reserve. Returns false beyond the limit.
   */
  reserve(bytes: number, light: boolean): boolean;
  release(bytes: number): void;
  /** Flushes the connection at the end of this turn of the event loop. */
  scheduleFlush(connection: Connection): void;
  /** The connection is done, or has failed. It may stay open for a moment so that its peer can read the reason. */
  finished(connection: Connection, failed: boolean): void;
  /** Logs an error in our own code. */
  internalError(thrown: unknown): void;
}

/** Payloads of our PING frames: a keep-alive check, the one between the two GOAWAY frames, and one after replies. */
const KEEPALIVE_PING = 1;
const GOAWAY_PING = 2;
const REPLY_PING = 3;

export type PeerSocket = Duplex & { readonly remoteAddress?: string | undefined };

export class Connection implements ReceiveContext {
  readonly socket: PeerSocket;
  readonly peer: string;
  readonly output: Output;
  readonly frames: FrameWriter;
  readonly encoder = new Encoder();
  readonly streams = new StreamTable();
  readonly budget = new RateBudget();
  sendWindow = DEFAULT_WINDOW;
  /** In sweeps of the server: the current one, and the one in which the peer was last heard from. */
  sweep = 0;
  lastReadSweep = 0;
  /** The sweep in which a call ended last. */
  lastCallSweep = 0;
  /** The connection is in the list of those to flush. */
  flushScheduled = false;
  lastStreamId = MAX_WINDOW;
  /** Bytes that were read are queued in the scheduler. */
  awaitsTurn = false;
  readonly #context: ConnectionContext;
  readonly #receiver: FrameReceiver;
  readonly #reader: FrameReader;
  /** Created with the first reply that holds a slot. */
  #unconfirmed: UnconfirmedReplies | undefined;
  #reserved = 0;
  /** SETTINGS_MAX_CONCURRENT_STREAMS was lowered, because memory is short. */
  #throttled = false;
  #reading = false;
  #pingOutstanding = false;
  #peerGoingAway = false;
  /** `announced`: the first GOAWAY was sent; `named`: the second one, which names the last stream, was sent. */
  #state: "open" | "announced" | "named" | "closed" = "open";

  constructor(socket: PeerSocket, context: ConnectionContext) {
    this.socket = socket;
    this.peer = canonicalAddress(socket.remoteAddress ?? "");
    this.#context = context;
    this.output = new Output(socket, context.chunkPool, () => this.#scheduleFlush());
    this.frames = new FrameWriter(this.output);
    this.#receiver = new FrameReceiver(this, context);
    this.#reader = new FrameReader(this.#receiver);
    this.frames.settings([
      [SETTING.headerTableSize, HEADER_TABLE_SIZE],
      [SETTING.maxConcurrentStreams, MAX_CONCURRENT_CALLS],
      [SETTING.initialWindowSize, STREAM_RECEIVE_WINDOW],
      [SETTING.maxHeaderListSize, context.maxHeaderList],
    ]);
    this.frames.windowUpdate(0, CONNECTION_RECEIVE_WINDOW - DEFAULT_WINDOW);
  }

  /** Frames are still being read. */
  get open(): boolean {
    return this.#state !== "closed";
  }

  /** Reading is paused until the peer has read what was sent to it. */
  get readingPaused(): boolean {
    return this.open && this.socket.isPaused() && !this.awaitsTurn;
  }

  /** Number of frames that the peer has sent. */
  get framesRead(): number {
    return this.#reader.frames;
  }

  get goAwayPending(): boolean {
    return this.#state === "announced";
  }

  /** Identifies the incomplete field block or frame; 0 if there is none. */
  get partialUnit(): number {
    return this.#receiver.openBlockStream !== 0
      ? -this.#receiver.openBlockStream
      : this.#reader.partialFrame;
  }

  /**
   * Handles bytes from offset `from` on until `spend`, which is called every few frames, returns false. All replies
   * that are ready at once leave in one write at the end. Returns the offset of the first byte that was not handled.
   */
  read(chunk: Buffer, from: number, spend: (frames: number) => boolean): number {
    if (!this.open) return chunk.length;
    this.lastReadSweep = this.sweep;
    this.#reading = true;
    let at = from;
    try {
      for (let goesOn = true; goesOn && at < chunk.length; ) {
        const before = this.#reader.frames;
        at = this.#reader.read(chunk, at, WORK_BETWEEN_CLOCK_READINGS);
        goesOn = spend(this.#reader.frames - before);
      }
      this.#receiver.endRead();
    } catch (thrown) {
      this.#terminate(thrown);
      at = chunk.length;
    }
    this.#reading = false;
    // A connection that has sent its share of this turn continues after the others.
    if (this.output.congested) this.#scheduleFlush();
    else this.flush();
    return at;
  }

  /** Sends everything at the end of a turn. */
  flush(): void {
    try {
      this.#flushAndFinish();
    } catch (thrown) {
      this.#terminate(thrown);
    }
  }

  #flushAndFinish(): void {
    if (this.#unconfirmed?.ask() === true && this.open) this.frames.ping(REPLY_PING);
    if (this.output.endTurn()) this.streams.resumeBlocked(this);
    if (!this.streams.empty) return;
    if (this.#peerGoingAway) {
      this.completeGoAway();
      this.output.flush();
    }
    if (this.#state !== "named") return;
    // Includes the last output of the last stream.
    this.output.flush();
    this.#state = "closed";
    this.#unconfirmed?.confirmAll();
    this.#context.finished(this, false);
  }

  /** Announces that no more calls are accepted. Calls in transit are taken until `completeGoAway`. */
  beginGoAway(): void {
    if (this.#state !== "open") return;
    this.#state = "announced";
    this.frames.goAway(MAX_WINDOW, ERROR_CODE.noError, "");
    this.frames.ping(GOAWAY_PING);
  }

  /** Names the last stream that is processed; the connection ends when all its calls are answered. */
  completeGoAway(): void {
    if (this.#state !== "open" && this.#state !== "announced") return;
    this.#state = "named";
    this.lastStreamId = this.streams.highestId;
    this.frames.goAway(this.lastStreamId, ERROR_CODE.noError, "");
  }

  /** Checks whether the peer is alive; at most one PING is outstanding. */
  ping(): void {
    if (this.#pingOutstanding) return;
    this.#pingOutstanding = true;
    this.frames.ping(KEEPALIVE_PING);
  }

  /** Ends the connection for a fault of the peer; undefined if it has been counted already. */
  fail(code: number, fault: Http2Fault | undefined, message: string): void {
    this.#terminate(new ConnectionError(code, fault, message));
  }

  /** The socket has closed. */
  socketClosed(): void {
    this.#state = "closed";
    this.#reader.discard();
    this.#receiver.socketClosed();
    this.streams.closeAll();
    this.#unconfirmed?.lostAll();
  }

  // StreamContext and ReceiveContext

  fault(fault: Http2Fault): void {
    this.#context.fault(fault, this.peer);
  }

  pingAcknowledged(payload: number): void {
    if (payload === KEEPALIVE_PING) this.#pingOutstanding = false;
    else if (payload === REPLY_PING) this.#unconfirmed?.confirmAsked();
    else if (payload === GOAWAY_PING && this.#state === "announced") this.completeGoAway();
  }

  replyRejected(id: number): void {
    this.#unconfirmed?.lost(id);
  }

  goAwayReceived(): void {
    this.#peerGoingAway = true;
  }

  reserve(bytes: number): boolean {
    const reserved = this.#reserved + bytes;
    if (
      reserved > MAX_BUFFERED_PER_CONNECTION ||
      !this.#context.reserve(bytes, reserved <= MAX_LIGHT_CONNECTION)
    ) {
      this.fault("too_many_bytes");
      return false;
    }
    this.#reserved = reserved;
    return true;
  }

  release(bytes: number): void {
    this.#reserved -= bytes;
    this.#context.release(bytes);
    if (this.#throttled && this.#reserved <= MAX_BUFFERED_PER_CONNECTION / 2) this.#throttle(false);
  }

  hasRoomForCall(bytes: number): boolean {
    return this.#reserved + bytes <= MAX_BUFFERED_FOR_NEW_CALL;
  }

  limitCalls(): void {
    if (!this.#throttled) this.#throttle(true);
  }

  /** A throttled peer waits, or opens another connection. */
  #throttle(throttled: boolean): void {
    if (!this.open) return;
    this.#throttled = throttled;
    const limit = throttled ? Math.max(1, this.streams.size) : MAX_CONCURRENT_CALLS;
    this.frames.settings([[SETTING.maxConcurrentStreams, limit]]);
    this.#scheduleFlush();
  }

  charge(calls: number, fault: Http2Fault, isFault: boolean): void {
    if (isFault) this.fault(fault);
    if (this.budget.spend(calls)) return;
    this.fail(ERROR_CODE.enhanceYourCalm, isFault ? undefined : fault, "calls that cost too much");
  }

  streamBlocked(stream: H2Stream): void {
    this.streams.addBlocked(stream);
  }

  streamEnded(stream: H2Stream, how: StreamEnd): void {
    const { streams } = this;
    this.lastCallSweep = this.sweep;
    streams.remove(stream);
    const answered = how === "answered";
    if (!answered || stream.remoteClosed) {
      streams.recordClosed(stream.id, how === "reset" && !stream.remoteClosed);
    } else if (!streams.addEarlyReply(stream, this.sweep)) this.#stopSending(stream.id);
    if (answered) this.budget.callAnswered();
    if (stream.held !== undefined) this.#settle(stream.id, stream.held, answered);
    this.#scheduleFlush();
  }

  #settle(id: number, held: Held, answered: boolean): void {
    if (!answered) {
      held.release();
      return;
    }
    this.#unconfirmed ??= new UnconfirmedReplies(this);
    this.#unconfirmed.add(id, held);
  }

  /** Resets streams that were answered before this sweep and whose requests are still being sent. */
  resetEarlyReplied(before: number): void {
    const { streams } = this;
    for (
      let id = streams.takeOverdueEarlyReply(before);
      id !== undefined;
      id = streams.takeOverdueEarlyReply(before)
    ) {
      this.#stopSending(id);
    }
  }

  /** RFC 9113 §8.1: after a complete reply, RST_STREAM with NO_ERROR only asks the peer to stop sending. */
  #stopSending(id: number): void {
    this.frames.rstStream(id, ERROR_CODE.noError);
    this.streams.recordClosed(id, true);
  }

  handlerFinished(): void {
    this.lastCallSweep = this.sweep;
    this.streams.freeSlot();
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    if (!this.#reading) this.#context.scheduleFlush(this);
  }

  #terminate(thrown: unknown): void {
    if (this.#state === "closed") return;
    const last = Math.min(this.lastStreamId, this.streams.highestId);
    if (thrown instanceof ConnectionError) {
      if (thrown.fault !== undefined) this.fault(thrown.fault);
      this.frames.goAway(last, thrown.code, thrown.message);
    } else {
      this.#context.internalError(thrown);
      this.frames.goAway(last, ERROR_CODE.internal, "");
    }
    this.output.flush();
    this.socketClosed();
    this.#context.finished(this, true);
  }
}
