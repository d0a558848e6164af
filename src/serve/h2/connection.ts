// One HTTP/2 connection from its greeting to its farewell. What frames bring is the receiver's business, what
// streams send their own; here is what they share, and how the connection ends.

import type { Duplex } from "node:stream";
import { plainAddress } from "../listen/address.ts";
import type { Http2Fault } from "../settings.ts";
import type { Answerer } from "./exchange.ts";
import { ConnectionFault } from "./fault.ts";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { ERROR, FIRST_WINDOW, MAX_WINDOW, SETTING } from "./frames.ts";
import { Guard } from "./guard.ts";
import { Encoder } from "./hpack/encoder.ts";
import {
  CONNECTION_WINDOW,
  HEADER_TABLE,
  LITTLE_HELD,
  MAX_HELD,
  MAX_STREAMS,
  STREAM_WINDOW,
} from "./limits.ts";
import { type Chunks, Output } from "./output.ts";
import { Receiver } from "./receiver.ts";
import type { Receiving } from "./receiving.ts";
import type { End, H2Stream } from "./stream.ts";
import { Streams } from "./streams.ts";

/** What connections share with the transport that they belong to. */
export interface Shared {
  readonly answer: Answerer;
  readonly chunks: Chunks;
  /** Most bytes of a request's fields. */
  readonly maxHeaderList: number;
  fault(fault: Http2Fault, peer: string): void;
  /** Bytes kept by all connections, for one that has few or many; false: too many. */
  hold(bytes: number, few: boolean): boolean;
  release(bytes: number): void;
  /** Something waits to be flushed at the end of this turn. */
  wake(connection: Connection): void;
  /** The connection has nothing left to do, or has failed: it may linger until its peer has read why. */
  finished(connection: Connection, failed: boolean): void;
  /** A defect of ours, to be logged. */
  broke(thrown: unknown): void;
}

/** What our pings carry: one that looks whether the peer is there, and the one before the last GOAWAY. */
const ALIVE = 1;
const FAREWELL = 2;

export type PeerSocket = Duplex & { readonly remoteAddress?: string | undefined };

export class Connection implements Receiving {
  readonly socket: PeerSocket;
  readonly peer: string;
  readonly out: Output;
  readonly frames: FrameWriter;
  readonly encoder = new Encoder();
  readonly streams = new Streams();
  readonly guard = new Guard();
  window = FIRST_WINDOW;
  /** In sweeps of the transport: now, and when the peer was heard last. */
  now = 0;
  heardAt = 0;
  /** It is among those that will be flushed. */
  awaited = false;
  named = MAX_WINDOW;
  readonly #shared: Shared;
  readonly #receiver: Receiver;
  readonly #reader: FrameReader;
  #held = 0;
  #reading = false;
  #asked = false;
  #peerLeaves = false;
  /** `leaving`: the peer was told; `left`: it was told which calls are still taken. */
  #state: "open" | "leaving" | "left" | "over" = "open";

  constructor(socket: PeerSocket, shared: Shared) {
    this.socket = socket;
    this.peer = plainAddress(socket.remoteAddress ?? "");
    this.#shared = shared;
    this.out = new Output(socket, shared.chunks, () => this.#wake());
    this.frames = new FrameWriter(this.out);
    this.#receiver = new Receiver(this, shared.answer, shared.maxHeaderList);
    this.#reader = new FrameReader(this.#receiver);
    this.frames.settings([
      [SETTING.headerTable, HEADER_TABLE],
      [SETTING.maxStreams, MAX_STREAMS],
      [SETTING.initialWindow, STREAM_WINDOW],
      [SETTING.maxHeaderList, shared.maxHeaderList],
    ]);
    this.frames.window(0, CONNECTION_WINDOW - FIRST_WINDOW);
  }

  /** Frames are still read. */
  get open(): boolean {
    return this.#state !== "over";
  }

  /** We do not read until the peer has taken what it was sent. */
  get deaf(): boolean {
    return this.open && this.socket.isPaused();
  }

  get leaving(): boolean {
    return this.#state === "leaving";
  }

  /** What has begun and is not whole, as a number that changes with it: a header block or a frame; 0: nothing. */
  get midway(): number {
    return this.#receiver.midBlock !== 0 ? -this.#receiver.midBlock : this.#reader.midFrame;
  }

  /** What a read brought. Everything that is answered at once leaves in one write at its end. */
  read(chunk: Buffer): void {
    if (this.#state === "over") return;
    this.heardAt = this.now;
    this.#reading = true;
    try {
      this.#reader.read(chunk);
      this.#receiver.rest();
    } catch (thrown) {
      this.#end(thrown);
    }
    this.#reading = false;
    // Who has sent its share goes on when the others have had their turn.
    if (this.out.choked) this.#wake();
    else this.flush();
  }

  /** The socket has room again. */
  drained(): void {
    this.flush();
  }

  /** The end of a turn. */
  flush(): void {
    try {
      this.#settle();
    } catch (thrown) {
      this.#end(thrown);
    }
  }

  #settle(): void {
    if (this.out.rest()) this.streams.unblock(this);
    if (!this.streams.idle) return;
    if (this.#peerLeaves) {
      this.name();
      this.out.flush();
    }
    if (this.#state !== "left") return;
    // What waited last has just been written.
    this.out.flush();
    this.#state = "over";
    this.#shared.finished(this, false);
  }

  /** No more calls; those on their way are still taken until `name` says which was the last. */
  leave(): void {
    if (this.#state !== "open") return;
    this.#state = "leaving";
    this.frames.goAway(MAX_WINDOW, ERROR.none, "");
    this.frames.ping(FAREWELL);
  }

  /** Names the last call that is taken; the connection ends when all are answered. */
  name(): void {
    if (this.#state !== "open" && this.#state !== "leaving") return;
    this.#state = "left";
    this.named = this.streams.last;
    this.frames.goAway(this.named, ERROR.none, "");
  }

  /** Asks whether the peer is there, once until it answers. */
  ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    this.frames.ping(ALIVE);
  }

  /** Ends the connection for what the peer did, or did not, over time; without a fault: it has been counted. */
  fail(code: number, fault: Http2Fault | undefined, message: string): void {
    this.#end(new ConnectionFault(code, fault, message));
  }

  /** The socket is gone. */
  closed(): void {
    this.#state = "over";
    this.#reader.forget();
    this.#receiver.closed();
    this.streams.drop();
  }

  // What streams and the receiver ask for.

  fault(fault: Http2Fault): void {
    this.#shared.fault(fault, this.peer);
  }

  ponged(what: number): void {
    if (what === ALIVE) this.#asked = false;
    else if (what === FAREWELL && this.#state === "leaving") this.name();
  }

  peerLeaves(): void {
    this.#peerLeaves = true;
  }

  hold(bytes: number): boolean {
    const held = this.#held + bytes;
    if (held > MAX_HELD || !this.#shared.hold(bytes, held <= LITTLE_HELD)) {
      this.fault("too_many_bytes");
      return false;
    }
    this.#held = held;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
    this.#shared.release(bytes);
  }

  charge(calls: number, fault: Http2Fault, wrong: boolean): void {
    if (wrong) this.fault(fault);
    if (this.guard.pays(calls)) return;
    this.fail(ERROR.calm, wrong ? undefined : fault, "too many calls that cost too much");
  }

  blocked(stream: H2Stream): void {
    this.streams.block(stream);
  }

  ended(stream: H2Stream, how: End): void {
    const { streams } = this;
    streams.remove(stream);
    const answered = how === "answered";
    if (!answered || stream.heard) streams.noteEnd(stream.id, how === "reset");
    else if (!streams.answeredEarly(stream, this.now)) this.#stop(stream.id);
    if (answered) this.guard.answered();
    this.#wake();
  }

  /** Asks those to stop that still send a request which was answered early, before that sweep. */
  stopSenders(before: number): void {
    const { streams } = this;
    for (let id = streams.overdue(before); id !== undefined; id = streams.overdue(before)) {
      this.#stop(id);
    }
  }

  /** RFC 9113 §8.1: after a whole reply this is a wish and no failure. */
  #stop(id: number): void {
    this.frames.reset(id, ERROR.none);
    this.streams.noteEnd(id, true);
  }

  rested(): void {
    this.streams.rested();
    this.#wake();
  }

  #wake(): void {
    if (!this.#reading) this.#shared.wake(this);
  }

  #end(thrown: unknown): void {
    if (this.#state === "over") return;
    const last = Math.min(this.named, this.streams.last);
    if (thrown instanceof ConnectionFault) {
      if (thrown.fault !== undefined) this.fault(thrown.fault);
      this.frames.goAway(last, thrown.code, thrown.message);
    } else {
      this.#shared.broke(thrown);
      this.frames.goAway(last, ERROR.internal, "");
    }
    this.out.flush();
    this.closed();
    this.#shared.finished(this, true);
  }
}
