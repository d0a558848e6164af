// The streams of one connection: those that live, the places they take, and how those that are gone ended.

import { FIRST_WINDOW, MAX_WINDOW } from "./frames.ts";
import { MAX_EARLY_REPLIES, MAX_STREAMS, REMEMBERED_ENDS } from "./limits.ts";
import type { H2Stream, Line } from "./stream.ts";

/** A stream that was answered before its request was whole, whose sender has not been asked to stop yet. */
interface Early {
  /** Bytes that the peer may still send. */
  allowance: number;
  /** In sweeps. */
  readonly since: number;
}

export class Streams {
  readonly live = new Map<number, H2Stream>();
  /** The highest id that the peer has used. */
  last = 0;
  /** What the peer takes on a new stream before it says more. */
  window = FIRST_WINDOW;
  /** Streams, and work that outlived its stream. */
  #places = 0;
  /** In the order in which they are to go on. */
  readonly #blocked = new Set<H2Stream>();
  /**
   * Ids of those that ended last; negative: reset by us. A ring in the order of their ends, not of their ids: a
   * stream may live, or be asked to stop, long after later ones have ended. Made when the first stream ends.
   */
  #ends: Int32Array | undefined;
  #nextEnd = 0;
  /** In the order of their replies. Made when a stream is answered early. */
  #early: Map<number, Early> | undefined;

  get idle(): boolean {
    return this.#places === 0;
  }

  get full(): boolean {
    return this.#places >= MAX_STREAMS;
  }

  /** Nobody has opened it; even ids would be ours, and we open none (RFC 9113 §5.1.1). */
  unopened(id: number): boolean {
    return id > this.last || (id & 1) === 0;
  }

  add(stream: H2Stream): void {
    this.#places++;
    this.live.set(stream.id, stream);
  }

  remove(stream: H2Stream): void {
    this.live.delete(stream.id);
    this.#blocked.delete(stream);
    if (!stream.working) this.#places--;
  }

  /** Work that outlived its stream is done. */
  rested(): void {
    this.#places--;
  }

  noteEnd(id: number, byUs: boolean): void {
    this.#ends ??= new Int32Array(REMEMBERED_ENDS);
    this.#ends[this.#nextEnd] = byUs ? -id : id;
    this.#nextEnd = (this.#nextEnd + 1) % REMEMBERED_ENDS;
  }

  /** We reset it: frames for it may have been on their way. */
  resetByUs(id: number): boolean {
    return this.#ends?.includes(-id) === true;
  }

  /** It was there, not just skipped. */
  knew(id: number): boolean {
    return this.#ends?.includes(id) === true || this.resetByUs(id);
  }

  /** A stream was answered early: how it ended is noted when its request does. False: too many wait for that. */
  answeredEarly({ id, allowance }: H2Stream, now: number): boolean {
    this.#early ??= new Map();
    if (this.#early.size >= MAX_EARLY_REPLIES) return false;
    this.#early.set(id, { allowance, since: now });
    return true;
  }

  /** It was answered early, and its request may still come to its end. */
  early(id: number): boolean {
    return this.#early?.has(id) === true;
  }

  /** More of a request that was answered early. False: more than its window allows, it is to be reset. */
  dropped(id: number, bytes: number, ends: boolean): boolean {
    const early = this.#early?.get(id);
    if (early === undefined) return true;
    early.allowance -= bytes;
    if (early.allowance < 0) this.#early?.delete(id);
    else if (ends) this.left(id);
    return early.allowance >= 0;
  }

  /** The peer has ended its half too: it sends nothing more, whatever we told it. */
  left(id: number): void {
    if (this.#early?.delete(id) === true) this.noteEnd(id, false);
    const ends = this.#ends;
    if (ends === undefined) return;
    for (let at = ends.indexOf(-id); at >= 0; at = ends.indexOf(-id, at)) ends[at] = id;
  }

  /** Takes one whose early reply is older than that sweep; undefined: none is. */
  overdue(before: number): number | undefined {
    if (this.#early === undefined) return undefined;
    for (const [id, { since }] of this.#early) {
      if (since >= before) return undefined;
      this.#early.delete(id);
      return id;
    }
    return undefined;
  }

  /** The stream waits for the connection's window, or for its socket. */
  block(stream: H2Stream): void {
    this.#blocked.add(stream);
  }

  /**
   * The connection takes more: those that waited for it go on, in turn, as long as there is room. Whoever finds it
   * used up waits again behind the others, so that little room is little work however many wait.
   */
  unblock(line: Pick<Line, "out" | "window">): void {
    for (const stream of this.#blocked) {
      if (line.window <= 0 || line.out.choked) return;
      this.#blocked.delete(stream);
      stream.pump();
    }
  }

  /** A new size of first windows, which holds for all streams (RFC 9113 §6.9.2). False: one became too wide. */
  resize(window: number): boolean {
    const wider = window - this.window;
    this.window = window;
    for (const stream of this.live.values()) {
      stream.window += wider;
      if (stream.window > MAX_WINDOW) return false;
    }
    if (wider > 0) for (const stream of this.live.values()) stream.pump();
    return true;
  }

  /** Nobody is there any more. */
  drop(): void {
    for (const stream of [...this.live.values()]) stream.drop();
  }
}
