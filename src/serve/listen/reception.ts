// Receives every connection, finds out within a bounded time what it speaks, and hands it on.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Transport } from "../lifetime/transport.ts";
import type { PortSettings } from "../settings.ts";
import { greeted, type PlainTongue, peek, tongueOf } from "./tongue.ts";

export interface ReceptionParts {
  readonly settings: Pick<PortSettings, "grpc" | "http">;
  readonly clock: Clock;
  readonly http1: Transport;
  /** By the connection: not every peer gets the same make of HTTP/2. */
  readonly http2: (socket: Socket) => Transport;
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
    this.#expect(socket, firstBytesWithin(this.#parts.settings));
    peek(socket, tongueOf, (tongue) => {
      this.#arrived(socket);
      if (this.#tls === undefined) {
        if (tongue === "tls") socket.destroy();
        else this.#enter(socket, tongue);
      } else if (tongue === "tls") {
        socket.allowHalfOpen = false;
        this.#tls.enter(socket);
      } else refuseCleartext(socket);
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
    for (const socket of [...this.#arriving.keys()]) socket.destroy();
  }

  destroyAll(): void {
    for (const socket of [...this.#all]) socket.destroy();
  }

  #enter(socket: Socket, tongue: PlainTongue): void {
    if (tongue === "http1") {
      this.#parts.http1.inject(socket);
      return;
    }
    // Over TLS this is a new socket: nobody has listened for its errors or its end yet.
    this.#expect(socket, this.#parts.settings.grpc.connection_timeout);
    peek(socket, greeted, (answer) => {
      this.#arrived(socket);
      if (answer === "yes") this.#parts.http2(socket).inject(socket);
      else socket.destroy();
    });
  }

  /** Destroys the connection when it has not arrived in time, or has failed. 0 ms = no limit. */
  #expect(socket: Socket, ms: number): void {
    socket.on("error", destroyed);
    socket.once("close", () => this.#arrived(socket));
    const late = () => socket.destroy();
    this.#arriving.set(socket, ms > 0 ? this.#parts.clock.alarm(ms, late) : () => undefined);
  }

  #arrived(socket: Socket): void {
    this.#arriving.get(socket)?.();
    this.#arriving.delete(socket);
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
