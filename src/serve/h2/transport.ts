// Sluice's own HTTP/2 behind the port's transport interface: every connection, what they share, and their ends.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { GrpcSettings, Http2Fault, HttpSettings, PortLog, ServerMeter } from "../settings.ts";
import { Complaints } from "./complaints.ts";
import { Connection, type Shared } from "./connection.ts";
import type { Answerer } from "./exchange.ts";
import { HELD_FOR_LITTLE, LINGER_MS, MAX_HEADER_LIST, MAX_HELD_IN_ALL } from "./limits.ts";
import { Chunks } from "./output.ts";
import { type Patience, sweepEvery, Watch } from "./patience.ts";

/** How far the age of a connection is spread, so that connections made together do not all leave together. */
const AGE_SPREAD = 0.1;

export interface H2Options {
  readonly answer: Answerer;
  readonly grpc: Pick<GrpcSettings, "max_connection_age" | "max_connection_age_grace">;
  readonly http: Pick<
    HttpSettings,
    "max_header_bytes" | "read_header_timeout" | "read_timeout" | "write_timeout"
  >;
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter: ServerMeter | undefined;
  /** From 0 to below 1, for the spread of ages. */
  readonly chance?: () => number;
}

export function h2Transport(options: H2Options): Transport {
  return new H2Transport(options);
}

/** A connection with what is to be done about it later. */
interface Place {
  readonly socket: Socket;
  readonly watch: Watch;
  readonly connection: Connection;
  /** Takes back the alarm that is set for it. */
  forget: () => void;
}

class H2Transport implements Transport, Shared {
  readonly answer: Answerer;
  readonly chunks = new Chunks();
  readonly maxHeaderList: number;
  readonly #options: H2Options;
  readonly #patience: Patience;
  readonly #complaints: Complaints;
  readonly #every: number;
  readonly #places = new Map<Connection, Place>();
  readonly #dirty: Connection[] = [];
  #flushing = false;
  #held = 0;
  #stopSweeping: (() => void) | undefined;

  constructor(options: H2Options) {
    this.#options = options;
    this.answer = options.answer;
    this.#complaints = new Complaints(options.clock, options.log);
    const { max_header_bytes, read_header_timeout, read_timeout, write_timeout } = options.http;
    this.maxHeaderList = Math.min(max_header_bytes || MAX_HEADER_LIST, MAX_HEADER_LIST);
    this.#patience = {
      headers: read_header_timeout || read_timeout,
      request: read_timeout,
      reply: write_timeout,
    };
    this.#every = sweepEvery(this.#patience);
  }

  inject(socket: Socket): void {
    // Nobody speaks HTTP/2 over half a connection.
    socket.allowHalfOpen = false;
    const connection = new Connection(socket, this);
    const watch = new Watch(connection, this.#patience, this.#every);
    const place: Place = { socket, watch, connection, forget: () => undefined };
    this.#places.set(connection, place);
    socket.on("data", (chunk: Buffer) => {
      connection.read(chunk);
      // A peer that does not take our replies is not read from until it does.
      if (socket.writableNeedDrain) socket.pause();
    });
    socket.on("drain", () => {
      if (!connection.open) return;
      connection.drained();
      if (!socket.writableNeedDrain) socket.resume();
    });
    socket.once("close", () => {
      place.forget();
      this.#places.delete(connection);
      connection.closed();
      if (this.#places.size === 0) this.#rest();
    });
    this.#limitAge(place);
    this.#stopSweeping ??= this.#options.clock.alarm(this.#every, () => this.#sweep());
  }

  /** Whoever is connected stays welcome until the drain itself. */
  leave(): void {}

  drain(): void {
    for (const { connection } of this.#places.values()) connection.leave();
  }

  cut(): void {
    this.#rest();
  }

  // What connections ask for.

  fault(fault: Http2Fault, peer: string): void {
    this.#options.meter?.http2Fault(fault);
    this.#complaints.about(fault, peer);
  }

  broke(thrown: unknown): void {
    this.#options.log.error("an HTTP/2 connection failed", { error: thrown });
  }

  hold(bytes: number, few: boolean): boolean {
    const most = few ? MAX_HELD_IN_ALL : MAX_HELD_IN_ALL - HELD_FOR_LITTLE;
    if (this.#held + bytes > most) return false;
    this.#held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
  }

  wake(connection: Connection): void {
    if (connection.awaited) return;
    connection.awaited = true;
    this.#dirty.push(connection);
    if (this.#flushing) return;
    this.#flushing = true;
    setImmediate(() => this.#flush());
  }

  finished(connection: Connection, failed: boolean): void {
    const place = this.#places.get(connection);
    if (place === undefined) return;
    const { socket } = place;
    const linger = () => {
      place.forget();
      place.forget = this.#options.clock.alarm(LINGER_MS, () => socket.destroy());
    };
    // Whoever floods us is not listened to any longer. It may still read why, unless it does not read at all.
    if (failed) socket.pause();
    // Replies that are on their way have their own time: write_timeout, the age's grace, the drain's.
    if (failed || socket.writableLength === 0) linger();
    else socket.once("finish", linger);
    socket.end();
  }

  #flush(): void {
    this.#flushing = false;
    for (const connection of this.#dirty.splice(0)) {
      connection.awaited = false;
      connection.flush();
    }
  }

  #limitAge(place: Place): void {
    const { clock, chance = Math.random, grpc } = this.#options;
    const { max_connection_age, max_connection_age_grace } = grpc;
    if (max_connection_age <= 0) return;
    const age = max_connection_age * (1 - AGE_SPREAD + 2 * AGE_SPREAD * chance());
    place.forget = clock.alarm(age, () => {
      place.connection.leave();
      if (max_connection_age_grace <= 0) return;
      place.forget = clock.alarm(max_connection_age_grace, () => place.socket.destroy());
    });
  }

  #sweep(): void {
    for (const { watch, socket } of this.#places.values()) if (!watch.sweep()) socket.destroy();
    this.#stopSweeping = this.#options.clock.alarm(this.#every, () => this.#sweep());
  }

  #rest(): void {
    this.#stopSweeping?.();
    this.#stopSweeping = undefined;
  }
}
