// Accepts every connection, detects its protocol within a bounded time, and hands it to a transport.

import type { Socket } from "node:net";
import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { joinHostPort } from "#base/net/host-port.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import type { RefusedConnection } from "#base/server-meter.ts";
import { checkHandshake } from "#h2/handshake.ts";
import type { PortSettings } from "../settings.ts";
import type { ApplicationProtocol, Transport } from "../transport.ts";
import type { ConnectionSlots } from "./connection-slots.ts";
import { type Displaceable, Displacement } from "./displacement.ts";
import { detectProtocol, peek } from "./protocol.ts";
import type { TlsMismatches } from "./tls-mismatch.ts";

/**
 * Milliseconds that a drain gives new connections for their first request: a few round trips, which a TLS handshake
 * takes.
 */
export const FIRST_REQUEST_WITHIN_MS = 1_000;

interface AcceptorOptions {
  readonly settings: Pick<PortSettings, "grpc" | "http">;
  readonly clock: Clock;
  readonly http1: Transport;
  readonly http2: Transport;
  readonly slots: ConnectionSlots;
  readonly refused: (why: RefusedConnection) => void;
  readonly mismatches: Pick<TlsMismatches, "record">;
  readonly log: Pick<Log, "debug" | "trace">;
}

/** The bytes that a connection must send before it is handed over. */
interface Expected<Answer> {
  readonly detect: (head: Buffer) => Answer | undefined;
  /** In ms; 0 = no limit. */
  readonly timeoutMs: number;
  readonly lateFault: RefusedConnection;
  /** The fault if the connection ends too early; undefined if that is not a fault because its protocol is unknown. */
  readonly brokenFault: RefusedConnection | undefined;
}

/** A connection as the debug pages show it. */
export interface OpenConnection {
  /** Address and port; empty on a Unix socket. */
  readonly peer: string;
  /** `tls` whatever it carries; `unknown` until its first bytes are there. */
  readonly protocol: "http1" | "http2" | "tls" | "unknown";
  /** When it was accepted, on the monotonic clock. */
  readonly since: number;
  readonly read: number;
  readonly written: number;
}

interface AcceptedConnection extends Displaceable {
  readonly since: number;
  protocol: OpenConnection["protocol"];
  /** The transport that serves it, and its socket there, which TLS has decrypted. */
  served: { readonly by: Transport; readonly socket: Socket } | undefined;
  hasSlot: boolean;
}

/** Takes a connection that starts with TLS and later calls `acceptDecrypted`. */
interface TlsTerminator {
  terminate(socket: Socket): void;
}

export class ConnectionAcceptor {
  readonly #options: AcceptorOptions;
  readonly #all = new Map<Socket, AcceptedConnection>();
  readonly #displacement = new Displacement();
  /** Connections under TLS by the address and port of their peers, which identify the decrypted side. */
  readonly #encrypted = new Map<string, AcceptedConnection>();
  /** Connections that have not sent enough, each with the function that cancels its alarm. */
  readonly #pending = new Map<Socket, () => void>();
  #tls: TlsTerminator | undefined;
  /** Number of TLS handshakes in progress. */
  #handshakes = 0;
  #lastAccepted = Number.NEGATIVE_INFINITY;
  /** Called when no connection is pending. */
  #onNonePending: (() => void) | undefined;
  #refusing = false;

  constructor(options: AcceptorOptions) {
    this.#options = options;
  }

  /** With a terminator, cleartext connections are refused; without one, TLS connections are. */
  useTls(terminator: TlsTerminator): void {
    this.#tls = terminator;
  }

  accept(socket: Socket): void {
    const { remoteAddress } = socket;
    const why = this.#takeSlot(remoteAddress);
    if (why !== undefined) {
      socket.on("error", ignoreError);
      this.#refuse(socket, why);
      return;
    }
    const connection = this.#register(socket);
    this.#lastAccepted = connection.since;
    socket.once("close", () => {
      this.#logEnd(socket, connection);
      this.#all.delete(socket);
      this.#releaseSlot(remoteAddress, connection);
    });
    this.#awaitBytes(socket, this.#firstBytes(detectProtocol), (protocol) => {
      connection.protocol = protocol;
      if (this.#tls === undefined) {
        if (protocol === "tls") {
          this.#options.mismatches.record("tls_on_cleartext", remoteAddress);
          this.#refuse(socket, "tls_on_cleartext");
        } else this.#handOver(socket, protocol, connection);
      } else if (protocol === "tls") {
        socket.allowHalfOpen = false;
        this.#handshakes++;
        const peer = peerOf(socket);
        if (peer === undefined) this.#displacement.remove(remoteAddress, connection);
        else {
          this.#encrypted.set(peer, connection);
          // By then the peer may have opened another connection from the same port.
          socket.once("close", () => {
            if (this.#encrypted.get(peer) === connection) this.#encrypted.delete(peer);
          });
        }
        this.#tls.terminate(socket);
      } else {
        this.#options.mismatches.record("cleartext_on_tls", remoteAddress);
        this.#options.refused("cleartext_on_tls");
        this.#logRefused(socket, "cleartext_on_tls");
        refuseCleartext(socket);
      }
    });
  }

  /** Accepts the decrypted side of a connection whose TLS handshake is complete; ALPN has chosen the protocol. */
  acceptDecrypted(inner: Socket, protocol: ApplicationProtocol): void {
    const connection = this.#encrypted.get(peerOf(inner) ?? "");
    const handOver = () => this.#handOver(inner, protocol, connection);
    if (this.#refusing) inner.destroy();
    else if (protocol === "http2") handOver();
    else this.#awaitBytes(inner, this.#firstBytes(anyBytes), handOver);
    this.#handshakeEnded();
  }

  /** A TLS handshake has failed, or its client was refused. */
  refuseHandshake(why: RefusedConnection): void {
    this.#options.refused(why);
    this.#handshakeEnded();
  }

  /**
   * Waits, after the last connection was accepted, until all have sent their first request: closing one before would
   * lose a request in transit. The last one has FIRST_REQUEST_WITHIN_MS, or `limit` ms if that is less.
   */
  async awaitFirstRequests(limit: number): Promise<void> {
    const { clock } = this.#options;
    const left = Math.min(limit, this.#lastAccepted + FIRST_REQUEST_WITHIN_MS - clock.now());
    if (left <= 0 || !this.#anyPending) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onNonePending = resolve;
    await within(left, clock, promise);
  }

  connections(): readonly OpenConnection[] {
    return [...this.#all].map(([socket, { since, protocol }]) => {
      const { bytesRead: read, bytesWritten: written } = socket;
      return { peer: shownPeer(socket), protocol, since, read, written };
    });
  }

  /** Accepts no more, and closes connections that have not been handed over. */
  closePending(): void {
    this.#refusing = true;
    for (const socket of [...this.#pending.keys()]) {
      this.#stopWaiting(socket);
      socket.destroy();
    }
    this.#onNonePending?.();
  }

  destroyAll(): void {
    this.closePending();
    for (const socket of [...this.#all.keys()]) socket.destroy();
  }

  get #anyPending(): boolean {
    return this.#pending.size + this.#handshakes > 0;
  }

  #handshakeEnded(): void {
    this.#handshakes--;
    this.#notifyIfNonePending();
  }

  #notifyIfNonePending(): void {
    if (!this.#anyPending) this.#onNonePending?.();
  }

  #firstBytes<Answer>(detect: (head: Buffer) => Answer | undefined): Expected<Answer> {
    return {
      detect,
      timeoutMs: firstBytesWithin(this.#options.settings),
      lateFault: "slow_first_bytes",
      brokenFault: undefined,
    };
  }

  /** Takes a slot, if necessary from an idle connection of the same address. Returns the reason if there is none. */
  #takeSlot(remoteAddress: string | undefined): RefusedConnection | undefined {
    const { slots, refused } = this.#options;
    const why = slots.take(remoteAddress);
    if (why === undefined || !this.#displacement.makeRoom(remoteAddress)) return why;
    refused(why);
    return slots.take(remoteAddress);
  }

  #releaseSlot(remoteAddress: string | undefined, connection: AcceptedConnection): void {
    if (!connection.hasSlot) return;
    connection.hasSlot = false;
    this.#displacement.remove(remoteAddress, connection);
    this.#options.slots.release(remoteAddress);
  }

  #register(socket: Socket): AcceptedConnection {
    const { remoteAddress } = socket;
    const connection: AcceptedConnection = {
      since: this.#options.clock.now(),
      protocol: "unknown",
      served: undefined,
      hasSlot: true,
      get hasCalled() {
        return connection.served?.by.hasCalled(connection.served.socket) ?? false;
      },
      get read() {
        return socket.bytesRead;
      },
      readAtInspection: 0,
      quietInspections: 0,
      closeIdle: () => {
        const { served } = connection;
        if (served === undefined) {
          this.#stopWaiting(socket);
          socket.destroy();
        } else if (!served.by.closeIdle(served.socket)) return false;
        this.#releaseSlot(remoteAddress, connection);
        return true;
      },
    };
    this.#all.set(socket, connection);
    this.#displacement.add(remoteAddress, connection);
    return connection;
  }

  #serve(socket: Socket, by: Transport, connection: AcceptedConnection | undefined): void {
    if (connection !== undefined) {
      connection.served = { by, socket };
      connection.readAtInspection = connection.read;
    }
    const { log, http1 } = this.#options;
    const protocol = by === http1 ? "http1" : "http2";
    const tls = connection?.protocol === "tls";
    log.debug?.({ peer: shownPeer(socket), protocol, tls }, "a connection was accepted");
    by.accept(socket);
  }

  /** Connections that sent nothing, such as port checks, are logged at trace. */
  #logEnd(socket: Socket, { protocol, since, served }: AcceptedConnection): void {
    const { log, clock } = this.#options;
    const line = served === undefined ? log.trace : log.debug;
    if (line === undefined) return;
    const { bytesRead: read, bytesWritten: written, errored } = socket;
    const ms = Math.round(clock.now() - since);
    const error = errored === null ? {} : { error: errored };
    line({ peer: shownPeer(socket), protocol, ms, read, written, ...error }, "a connection ended");
  }

  #logRefused(socket: Socket, reason: RefusedConnection): void {
    this.#options.log.debug?.({ peer: shownPeer(socket), reason }, "a connection was refused");
  }

  #handOver(
    socket: Socket,
    protocol: ApplicationProtocol,
    connection: AcceptedConnection | undefined,
  ): void {
    const { http1, http2 } = this.#options;
    if (protocol === "http1") {
      this.#serve(socket, http1, connection);
      return;
    }
    // Over TLS this is a new socket, whose errors and end nothing listens to yet.
    const timeoutMs = this.#options.settings.grpc.connection_timeout;
    const expected = {
      detect: checkHandshake,
      timeoutMs,
      lateFault: "slow_preface",
      brokenFault: "broken_preface",
    } as const;
    this.#awaitBytes(socket, expected, (answer) => {
      if (answer === "complete") this.#serve(socket, http2, connection);
      else this.#refuse(socket, "broken_preface");
    });
  }

  /** Waits for the expected bytes; destroys the connection if they do not arrive in time, or if it fails. */
  #awaitBytes<Answer>(
    socket: Socket,
    { detect, timeoutMs, lateFault, brokenFault }: Expected<Answer>,
    then: (answer: Answer) => void,
  ): void {
    socket.on("error", ignoreError);
    const ring = () => this.#refuse(socket, lateFault);
    this.#pending.set(
      socket,
      timeoutMs > 0 ? this.#options.clock.alarm(timeoutMs, ring) : () => undefined,
    );
    const done = (answer: Answer) => {
      this.#stopWaiting(socket);
      then(answer);
      this.#notifyIfNonePending();
    };
    peek(socket, detect, done, (begun) => {
      // Not if we ended the connection ourselves.
      if (this.#stopWaiting(socket) && begun && brokenFault !== undefined)
        this.#options.refused(brokenFault);
      this.#notifyIfNonePending();
    });
  }

  #refuse(socket: Socket, why: RefusedConnection): void {
    this.#stopWaiting(socket);
    this.#options.refused(why);
    this.#logRefused(socket, why);
    socket.destroy();
  }

  /** Stops waiting for a connection. Returns false if it was not being waited for. */
  #stopWaiting(socket: Socket): boolean {
    this.#pending.get(socket)?.();
    return this.#pending.delete(socket);
  }
}

/** Undefined on a Unix socket, where peers cannot be told apart. */
function peerOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remotePort === undefined ? undefined : `${remoteAddress} ${remotePort}`;
}

/** Address and port, which Node knows even after the socket has closed; "" on a Unix socket. */
function shownPeer({ remoteAddress = "", remotePort }: Socket): string {
  return remotePort === undefined ? "" : joinHostPort(canonicalAddress(remoteAddress), remotePort);
}

/** Over TLS the handshake has chosen the protocol. */
function anyBytes(): true {
  return true;
}

/** Node destroys a failed socket. Without a listener the error would end the process. */
function ignoreError(): void {}

/** Until the protocol is known, the shorter of both protocols' limits applies. */
function firstBytesWithin({ grpc, http }: AcceptorOptions["settings"]): number {
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
