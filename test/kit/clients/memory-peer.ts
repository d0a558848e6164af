// An in-memory client of Sluice's HTTP/2 transport, with a fake clock. It decides byte by byte how much of the
// server's output it accepts, which no real socket allows.

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import type { GrpcService } from "#base/handler.ts";
import { Http2Server } from "#h2/http2-server.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { grpcRequestHandler } from "#serve/grpc/request-handler.ts";
import { FrameSplitter } from "../../lab/fuzz/engine/connection.ts";
import { type FakeClock, fakeClock } from "../clock.ts";
import { memoryLog } from "../sluice/log.ts";
import { memoryMeter, portSettings } from "../sluice/port.ts";

import { PREFACE, settings } from "./h2.ts";

type Done = (error?: Error | null) => void;

const MAX_FRAME = 16_384;
/** Event loop turns that the server needs for what it was sent: reading, flushing, and stream events between. */
const TURNS = 4;

/** The server's end of the connection. */
export class PacedSocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  /** The server has ended its side: it will write no more. */
  writesEnded = false;
  readonly #onWrite: (bytes: Buffer) => void;
  /** Number of bytes still accepted. */
  #acceptable = Number.POSITIVE_INFINITY;
  #waiting: { bytes: Buffer; readonly done: Done } | undefined;

  /** `onWrite` receives what the server writes. It must not keep the buffer after it returns. */
  constructor(onWrite: (bytes: Buffer) => void) {
    super();
    this.#onWrite = onWrite;
  }

  /** Accepts this many more bytes and then none. */
  acceptBytes(bytes: number): void {
    this.#acceptable = bytes;
    this.#deliver();
  }

  /** As `net.Socket`: ends its side, and is destroyed once everything is written. */
  destroySoon(): void {
    this.end(() => this.destroy());
  }

  override _read(): void {}

  override _write(bytes: Buffer, _: BufferEncoding, done: Done): void {
    this.#waiting = { bytes, done };
    this.#deliver();
  }

  override _final(done: Done): void {
    this.writesEnded = true;
    done();
  }

  #deliver(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const part = Math.min(this.#acceptable, waiting.bytes.length);
    this.#acceptable -= part;
    if (part > 0) this.#onWrite(waiting.bytes.subarray(0, part));
    waiting.bytes = waiting.bytes.subarray(part);
    if (waiting.bytes.length > 0) return;
    this.#waiting = undefined;
    waiting.done();
  }
}

export interface ReceivedFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export class MemoryPeer {
  readonly frames: ReceivedFrame[] = [];
  readonly socket: PacedSocket;
  readonly #scheduler: ReadScheduler;

  /** `turns` are those of the server. */
  constructor(scheduler: ReadScheduler) {
    this.#scheduler = scheduler;
    const cutter = new FrameSplitter((type, flags, stream, payload) => {
      this.frames.push({ type, flags, stream, payload: Buffer.from(payload) });
    }, MAX_FRAME);
    this.socket = new PacedSocket((bytes) => cutter.push(bytes));
    // A broken connection is an ordinary end.
    this.socket.on("error", () => undefined);
  }

  /** The received frames of a type and stream. */
  of(type: number, stream = 0): readonly ReceivedFrame[] {
    return this.frames.filter((is) => is.type === type && is.stream === stream);
  }

  /** Sends bytes and gives the server its turns; what it does not read waits in the socket. */
  async send(...bytes: readonly Uint8Array[]): Promise<void> {
    if (!this.socket.destroyed) this.socket.push(Buffer.concat(bytes));
    await turns();
    // The server handles a bounded number of frames in each turn.
    while (!this.#scheduler.idle) await turn();
  }
}

export async function turns(): Promise<void> {
  for (let at = 0; at < TURNS; at++) await turn();
}

interface MemoryServerOptions {
  /** `max_connection_age`, ms; 0 means no limit. */
  readonly age?: number;
  /** Value of the random source that spreads the ages, from 0 to below 1. */
  readonly chance?: number;
  /** `idle_timeout`, ms; 0 means no limit. */
  readonly idle?: number;
}

/** Sluice's HTTP/2 transport with these services, and a function that connects to it. */
export function memoryServer(
  services: readonly GrpcService[],
  { age = 0, chance = 0.5, idle = 0 }: MemoryServerOptions = {},
) {
  const clock: FakeClock = fakeClock();
  const log = memoryLog();
  const { meter, faults } = memoryMeter();
  const { http, grpc } = portSettings({
    grpc: { max_connection_age: age },
    http: { idle_timeout: idle },
  });
  const { handle: answer } = grpcRequestHandler(services, grpc, { clock, log, meter });
  const scheduler = new ReadScheduler(clock);
  const transport = new Http2Server({
    scheduler,
    handleRequest: answer,
    settings: { ...http, ...grpc },
    clock,
    log,
    meter,
    chance: () => chance,
  });
  /** A peer that has sent its connection preface. */
  const connect = async (initialFrames: Uint8Array = settings()): Promise<MemoryPeer> => {
    const peer = new MemoryPeer(scheduler);
    // The memory socket has every member that the transport uses.
    transport.accept(peer.socket as unknown as Socket);
    await peer.send(PREFACE, initialFrames);
    return peer;
  };
  return { clock, log, faults, transport, scheduler, connect, http };
}
