// The streams of one connection: open streams, the slots that they occupy, and how the most recently closed ones ended.

import { DEFAULT_WINDOW, MAX_WINDOW } from "../frames/format.ts";
import { CLOSED_STREAM_HISTORY, MAX_CONCURRENT_CALLS, MAX_EARLY_REPLIES } from "../limits.ts";
import type { H2Stream, StreamContext } from "./stream.ts";

/** A stream that was answered before its request was complete, and that has not been reset. */
interface EarlyReply {
  /** Bytes that the peer may still send. */
  receiveWindow: number;
  /** Missing bytes of the body; negative if the request did not announce its length. */
  remainingLength: number;
  /** Sweep in which the reply was sent. */
  readonly since: number;
}

export class StreamTable {
  /**
   * The newest stream while it is open. Most streams are answered before the next one is added and never enter the map:
   * a map that becomes empty is allocated anew.
   */
  #newest: H2Stream | undefined;
  /** All other open streams by id. */
  readonly #others = new Map<number, H2Stream>();
  /** Highest stream id that the peer has used. */
  highestId = 0;
  /** The peer's SETTINGS_INITIAL_WINDOW_SIZE. */
  initialSendWindow = DEFAULT_WINDOW;
  /** Open streams, and handlers that outlived their stream. */
  #slots = 0;
  /** Streams that wait for the connection, in the order in which they will continue. */
  readonly #blocked = new Set<H2Stream>();
  /**
   * Ids of the most recently closed streams, as a ring in order of closing; negative: reset by us before their peer had
   * ended them. Allocated when the first stream closes.
   */
  #closedIds: Int32Array | undefined;
  #nextClosed = 0;
  /** In order of their replies. Allocated at the first one. */
  #earlyReplies: Map<number, EarlyReply> | undefined;

  get empty(): boolean {
    return this.#slots === 0;
  }

  get full(): boolean {
    return this.#slots >= MAX_CONCURRENT_CALLS;
  }

  /** True if the peer has not opened the stream (RFC 9113 §5.1). Even ids would be ours, and we open none. */
  isIdle(id: number): boolean {
    return id > this.highestId || (id & 1) === 0;
  }

  /** Number of open streams. */
  get size(): number {
    return this.#others.size + (this.#newest === undefined ? 0 : 1);
  }

  /** The open stream with this id. */
  get(id: number): H2Stream | undefined {
    const newest = this.#newest;
    return newest?.id === id ? newest : this.#others.get(id);
  }

  /** The streams that are open now, in the order of their ids. */
  open(): readonly H2Stream[] {
    const open = [...this.#others.values()];
    if (this.#newest !== undefined) open.push(this.#newest);
    return open;
  }

  add(stream: H2Stream): void {
    this.#slots++;
    if (this.#newest !== undefined) this.#others.set(this.#newest.id, this.#newest);
    this.#newest = stream;
  }

  remove(stream: H2Stream): void {
    if (stream === this.#newest) this.#newest = undefined;
    else this.#others.delete(stream.id);
    if (this.#blocked.size > 0) this.#blocked.delete(stream);
    if (!stream.handlerRunning) this.#slots--;
  }

  /** A handler that outlived its stream has finished. */
  freeSlot(): void {
    this.#slots--;
  }

  recordClosed(id: number, resetBeforeEnd: boolean): void {
    this.#closedIds ??= new Int32Array(CLOSED_STREAM_HISTORY);
    this.#closedIds[this.#nextClosed] = resetBeforeEnd ? -id : id;
    this.#nextClosed = (this.#nextClosed + 1) % CLOSED_STREAM_HISTORY;
  }

  /** We reset a stream that is not open. This replaces a reset that was still due after an early reply. */
  recordReset(id: number): void {
    this.#earlyReplies?.delete(id);
    if (!this.wasOpen(id)) this.recordClosed(id, true);
  }

  /** True if we reset the stream before its peer had ended it: frames for it may have been in transit. */
  wasResetBeforeEnd(id: number): boolean {
    return this.#closedIds?.includes(-id) === true;
  }

  /** True if the stream was open once. */
  wasOpen(id: number): boolean {
    return this.#closedIds?.includes(id) === true || this.wasResetBeforeEnd(id);
  }

  /** Adds a stream that was answered early. Returns false if too many wait already. */
  addEarlyReply({ id, receiveWindow, remainingLength }: H2Stream, sweep: number): boolean {
    this.#earlyReplies ??= new Map();
    if (this.#earlyReplies.size >= MAX_EARLY_REPLIES) return false;
    this.#earlyReplies.set(id, { receiveWindow, remainingLength, since: sweep });
    return true;
  }

  /** True if the stream was answered early and its request may still end by itself. */
  hasEarlyReply(id: number): boolean {
    return this.#earlyReplies?.has(id) === true;
  }

  /** Counts a DATA frame of a request that was answered early. Returns false if it exceeds the receive window. */
  receiveUnread(id: number, frameBytes: number): boolean {
    const early = this.#earlyReplies?.get(id);
    if (early === undefined) return true;
    early.receiveWindow -= frameBytes;
    return early.receiveWindow >= 0;
  }

  /**
   * Discards a part of the body of a request that was answered early, or its end. Returns false if the body is longer
   * than announced. It may be shorter: curl ends its upload when it has the reply.
   */
  discardBody(id: number, bytes: number, ends: boolean): boolean {
    const early = this.#earlyReplies?.get(id);
    if (early !== undefined && early.remainingLength >= 0) {
      early.remainingLength -= bytes;
      if (early.remainingLength < 0) return false;
    }
    if (ends) this.recordRemoteClosed(id);
    return true;
  }

  /** The peer has ended its half as well and sends nothing more. */
  recordRemoteClosed(id: number): void {
    if (this.#earlyReplies?.delete(id) === true) this.recordClosed(id, false);
    const ends = this.#closedIds;
    if (ends === undefined) return;
    for (let at = ends.indexOf(-id); at >= 0; at = ends.indexOf(-id, at)) ends[at] = id;
  }

  /** Removes and returns one stream that was answered before this sweep, if there is one. */
  takeOverdueEarlyReply(before: number): number | undefined {
    if (this.#earlyReplies === undefined) return undefined;
    for (const [id, { since }] of this.#earlyReplies) {
      if (since >= before) return undefined;
      this.#earlyReplies.delete(id);
      return id;
    }
    return undefined;
  }

  /** The stream waits for the connection's send window, or for its socket. */
  addBlocked(stream: H2Stream): void {
    this.#blocked.add(stream);
  }

  /**
   * Continues the blocked streams in order, as long as there is room. A stream that finds the window used up joins the
   * end of the queue, so that little room causes little work however many streams wait.
   */
  resumeBlocked(connection: Pick<StreamContext, "output" | "sendWindow">): void {
    for (const stream of this.#blocked) {
      if (connection.sendWindow <= 0 || connection.output.congested) return;
      this.#blocked.delete(stream);
      stream.sendPending();
    }
  }

  /**
   * Applies a new SETTINGS_INITIAL_WINDOW_SIZE to all streams (RFC 9113 §6.9.2). Returns false if a window overflows.
   */
  changeInitialWindow(window: number): boolean {
    const difference = window - this.initialSendWindow;
    this.initialSendWindow = window;
    const open = this.open();
    for (const stream of open) {
      stream.sendWindow += difference;
      if (stream.sendWindow > MAX_WINDOW) return false;
    }
    if (difference > 0) for (const stream of open) stream.sendPending();
    return true;
  }

  /** The connection is gone. */
  closeAll(): void {
    for (const stream of this.open()) stream.closeSilently();
  }
}
