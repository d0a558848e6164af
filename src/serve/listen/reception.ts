// Receives every connection, finds out within a bounded time what it speaks, and hands it on.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { PortSettings, RefusedConnection } from "../settings.ts";
import { greeted, type PlainTongue, peek, tongueOf } from "./tongue.ts";

export interface ReceptionParts {
  readonly settings: Pick<PortSettings, "grpc" | "http">;
  readonly clock: Clock;
  readonly http1: Transport;
  /** By the connection: not every peer gets the same make of HTTP/2. */
  readonly http2: (socket: Socket) => Transport;
  readonly refused: (why: RefusedConnection) => void;
}

/** What a connection is to say first. */
interface Expected<Answer> {
  readonly judge: (head: Buffer) => Answer | undefined;
  /** 0 ms = no limit. */
  readonly within: number;
  readonly late: RefusedConnection;
  /** It began and broke off. Where that is no fault, as nobody knows yet what it was to be: undefined. */
  readonly broken: RefusedConnection | undefined;
}

/** Takes a connection that begins with TLS, and admits what is inside later. */
interface Door {
  enter(socket: Socket): void;
}

export class Reception {
  readonly #parts: ReceptionParts;
  readonly #all = new Set<Socket>();
  /** Connections that have yet to say what they speak, each with what takes its alarm back. */
  readonly #arriving = new Map<Socket, () => void>();
  #tls: Door | undefined;
  #away = false;

  constructor(parts: ReceptionParts) {
    this.#parts = parts;
  }

  /** With a door cleartext is refused, without one TLS is. */
  useTls(door: Door): void {
    this.#tls = door;
  }

  receive(socket: Socket): void {
    this.#all.add(socket);
    socket.once("close", () => this.#all.delete(socket));
    const within = firstBytesWithin(this.#parts.settings);
    const expected = {
      judge: tongueOf,
      within,
      late: "slow_first_bytes",
      broken: undefined,
    } as const;
    this.#hear(socket, expected, (tongue) => {
      if (this.#tls === undefined) {
        if (tongue === "tls") this.#refuse(socket, "tls_on_cleartext");
        else this.#enter(socket, tongue);
      } else if (tongue === "tls") {
        socket.allowHalfOpen = false;
        this.#tls.enter(socket);
      } else {
        this.#parts.refused("cleartext_on_tls");
        refuseCleartext(socket);
      }
    });
  }

  /** The inside of a connection whose TLS handshake is complete; the tongue was agreed there. */
  admit(inner: Socket, tongue: PlainTongue): void {
    if (this.#away) inner.destroy();
    else this.#enter(inner, tongue);
  }

  /** Nobody new: connections that have not said what they want are closed. */
  turnAway(): void {
    this.#away = true;
    for (const socket of [...this.#arriving.keys()]) {
      this.#arrived(socket);
      socket.destroy();
    }
  }

  destroyAll(): void {
    this.turnAway();
    for (const socket of [...this.#all]) socket.destroy();
  }

  #enter(socket: Socket, tongue: PlainTongue): void {
    if (tongue === "http1") {
      this.#parts.http1.inject(socket);
      return;
    }
    // Over TLS this is a new socket: nobody has listened for its errors or its end yet.
    const within = this.#parts.settings.grpc.connection_timeout;
    const expected = {
      judge: greeted,
      within,
      late: "slow_preface",
      broken: "broken_preface",
    } as const;
    this.#hear(socket, expected, (answer) => {
      if (answer === "yes") this.#parts.http2(socket).inject(socket);
      else this.#refuse(socket, "broken_preface");
    });
  }

  /** Waits until the connection has said what is expected; destroys it when it has not in time, or has failed. */
  #hear<Answer>(
    socket: Socket,
    { judge, within, late, broken }: Expected<Answer>,
    heard: (answer: Answer) => void,
  ): void {
    socket.on("error", destroyed);
    const ring = () => this.#refuse(socket, late);
    this.#arriving.set(
      socket,
      within > 0 ? this.#parts.clock.alarm(within, ring) : () => undefined,
    );
    const done = (answer: Answer) => {
      this.#arrived(socket);
      heard(answer);
    };
    peek(socket, judge, done, (begun) => {
      // Unless it was us who ended it.
      if (this.#arrived(socket) && begun && broken !== undefined) this.#parts.refused(broken);
    });
  }

  #refuse(socket: Socket, why: RefusedConnection): void {
    this.#arrived(socket);
    this.#parts.refused(why);
    socket.destroy();
  }

  /** Nothing more is waited for; false: nothing was. */
  #arrived(socket: Socket): boolean {
    this.#arriving.get(socket)?.();
    return this.#arriving.delete(socket);
  }
}

/** Node destroys a socket that failed by itself; without a listener the failure would end the process. */
function destroyed(): void {}

/** Until its first bytes tell, a connection is held to the shorter of both tongues' limits. */
function firstBytesWithin({ grpc, http }: ReceptionParts["settings"]): number {
  const header = http.read_header_timeout === 0 ? http.read_timeout : http.read_header_timeout;
  const limits = [grpc.connection_timeout, header].filter((ms) => ms > 0);
  return limits.length === 0 ? 0 : Math.min(...limits);
}

function refuseCleartext(socket: Socket): void {
  const body = '{"code":3,"message":"this port speaks TLS","details":[]}';
  socket.write(
    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\n" +
      `content-length: ${body.length}\r\n\r\n${body}`,
  );
  socket.destroySoon();
}
