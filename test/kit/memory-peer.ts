// A peer of the own HTTP/2 transport in memory, on a clock that stands still: it decides byte by byte how much it
// takes of what the server writes, which no real socket lets a test do.

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { grpcAnswerer } from "#serve/grpc/answerer.ts";
import { h2Transport } from "#serve/h2/transport.ts";
import type { Service } from "#serve/handler.ts";
import { type FakeClock, fakeClock } from "./clock.ts";
import { Cutter } from "./fuzz-wire.ts";
import { PREFACE, settings } from "./h2.ts";
import { memoryLog, memoryMeter, portSettings } from "./port.ts";

type Done = (error?: Error | null) => void;

const MAX_FRAME = 16_384;
/** Turns that the server gets for what was sent to it: its reads, its flush, and the events of streams between. */
const TURNS = 4;

/** The server's end of the connection. */
export class PacedSocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  /** The server will write no more. */
  finished = false;
  readonly #heard: (bytes: Buffer) => void;
  /** How many more bytes are taken. */
  #appetite = Number.POSITIVE_INFINITY;
  #waiting: { bytes: Buffer; readonly done: Done } | undefined;

  /** `heard` gets what the server writes; the memory is only its until it returns. */
  constructor(heard: (bytes: Buffer) => void) {
    super();
    this.#heard = heard;
  }

  /** Takes so many more bytes and then none. */
  allow(bytes: number): void {
    this.#appetite = bytes;
    this.#feed();
  }

  override _read(): void {}

  override _write(bytes: Buffer, _: BufferEncoding, done: Done): void {
    this.#waiting = { bytes, done };
    this.#feed();
  }

  override _final(done: Done): void {
    this.finished = true;
    done();
  }

  #feed(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const part = Math.min(this.#appetite, waiting.bytes.length);
    this.#appetite -= part;
    if (part > 0) this.#heard(waiting.bytes.subarray(0, part));
    waiting.bytes = waiting.bytes.subarray(part);
    if (waiting.bytes.length > 0) return;
    this.#waiting = undefined;
    waiting.done();
  }
}

export interface HeardFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export class MemoryPeer {
  readonly frames: HeardFrame[] = [];
  readonly socket: PacedSocket;

  constructor() {
    const cutter = new Cutter((type, flags, stream, payload) => {
      this.frames.push({ type, flags, stream, payload: Buffer.from(payload) });
    }, MAX_FRAME);
    this.socket = new PacedSocket((bytes) => cutter.push(bytes));
    // A connection that breaks is an ordinary end.
    this.socket.on("error", () => undefined);
  }

  of(type: number, stream = 0): readonly HeardFrame[] {
    return this.frames.filter((is) => is.type === type && is.stream === stream);
  }

  /** Resolves when the server has had its turns for it; what it does not read waits in the socket. */
  async send(...bytes: readonly Uint8Array[]): Promise<void> {
    if (!this.socket.destroyed) this.socket.push(Buffer.concat(bytes));
    await turns();
  }
}

export async function turns(): Promise<void> {
  for (let at = 0; at < TURNS; at++) await turn();
}

interface MemoryServerOptions {
  /** In ms; 0: connections grow as old as they like. */
  readonly age?: number;
  /** From 0 to below 1, for the spread of ages. */
  readonly chance?: number;
}

/** The transport with these services, and a way to reach it. */
export function memoryServer(
  services: readonly Service[],
  { age = 0, chance = 0.5 }: MemoryServerOptions = {},
) {
  const clock: FakeClock = fakeClock();
  const log = memoryLog();
  const { meter, faults } = memoryMeter();
  const { http, grpc } = portSettings({ grpc: { max_connection_age: age } });
  const { answer } = grpcAnswerer(services, { clock, log, meter });
  const transport = h2Transport({
    ...{ answer, grpc, http, clock, log, meter },
    chance: () => chance,
  });
  /** A peer that has sent its greeting. */
  const connect = async (greeting: Uint8Array = settings()): Promise<MemoryPeer> => {
    const peer = new MemoryPeer();
    // The transport uses of a socket what this one has.
    transport.inject(peer.socket as unknown as Socket);
    await peer.send(PREFACE, greeting);
    return peer;
  };
  return { clock, log, faults, transport, connect, http };
}
