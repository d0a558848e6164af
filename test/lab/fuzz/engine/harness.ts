// Test harness around the code that is fuzzed: Sluice's HTTP/2 transport with gRPC services and JSON routes, on
// in-memory connections and a fake clock. It counts everything that a connection could leave behind.

import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { GrpcService } from "#base/handler.ts";
import type { ServerMeter } from "#base/server-meter.ts";
import type { RequestHandler } from "#h2/exchange.ts";
import { Http2Server } from "#h2/http2-server.ts";
import { MAX_BUFFERED_TOTAL } from "#h2/limits.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { grpcRequestHandler } from "#serve/grpc/request-handler.ts";
import { HttpServer } from "#serve/http/http-server.ts";
import { call, PREFACE, settings } from "../../../kit/clients/h2.ts";
import { type FakeClock, fakeClock } from "../../../kit/clock.ts";
import { memoryLog } from "../../../kit/sluice/log.ts";
import { portSettings } from "../../../kit/sluice/port.ts";
import { MemorySocket } from "./connection.ts";
import { ExpectedState } from "./expected-state.ts";
import { Oracle } from "./oracle.ts";
import { fuzzService, ROUTES } from "./services.ts";

/**
 * Time after which a wait counts as hung, ms. Nearly everything takes a few turns of the event loop; decompression
 * waits for threads of a busy machine.
 */
const HANGS_MS = 10_000;
/** Time for which a connection may linger after its GOAWAY, and a handler may work, ms. */
const LATE_MS = 1_000;

export interface Connection {
  readonly socket: MemorySocket;
  readonly expected: ExpectedState;
  readonly oracle: Oracle;
  /** Receives what the server sends, in addition to the oracle. */
  onOutput?: (bytes: Buffer) => void;
}

export class Harness {
  readonly clock: FakeClock = fakeClock();
  readonly log = memoryLog();
  /** Number of calls that the meter saw start and not end. */
  calls = 0;
  /** Number of handlers at work. */
  running = 0;
  connections = 0;
  readonly faults: Record<string, number> = {};
  readonly #transport: Http2Server;
  readonly #http: HttpServer;

  constructor(services?: readonly GrpcService[]) {
    const { clock, log } = this;
    const { http, grpc } = portSettings();
    const meter: ServerMeter = {
      grpcStarted: () => {
        this.calls++;
      },
      grpcHandled: () => {
        this.calls--;
      },
      grpcReceived() {},
      grpcSent() {},
      httpRequest() {},
      connectionRefused() {},
      certificate() {},
      http2Fault: (fault) => {
        this.faults[fault] = (this.faults[fault] ?? 0) + 1;
      },
    };
    const environment = { clock, log, meter };
    const fuzzed = fuzzService(clock, (by) => {
      this.running += by;
    });
    const calls = grpcRequestHandler(services ?? [fuzzed], grpc, environment);
    const scheduler = new ReadScheduler(clock);
    this.#http = new HttpServer({
      scheduler,
      routes: ROUTES,
      settings: http,
      ...environment,
    });
    const answer: RequestHandler = (stream, head, last) =>
      (calls.accepts(head) ? calls.handle : this.#http.handleRequest)(stream, head, last);
    this.#transport = new Http2Server({
      scheduler,
      handleRequest: answer,
      settings: { ...http, ...grpc },
      ...environment,
      chance: () => 0.5,
    });
  }

  /** Opens a connection; the oracle keeps the bodies of replies when `keepBodies` is true. */
  connect(keepBodies = false): Connection {
    this.connections++;
    const expected = new ExpectedState();
    const oracle = new Oracle(expected, keepBodies);
    const socket: MemorySocket = new MemorySocket((bytes) => {
      oracle.read(bytes);
      connection.onOutput?.(bytes);
    });
    const connection: Connection = { socket, expected, oracle };
    // The port treats a connection that breaks as an ordinary end, too.
    socket.on("error", () => undefined);
    // The cast: the memory socket has every member that the transport uses.
    this.#transport.accept(socket as unknown as Socket);
    return connection;
  }

  /** Sends bytes as the client; does nothing once the server has closed the connection. */
  send({ socket, expected }: Connection, bytes: Buffer): void {
    if (socket.destroyed) return;
    expected.push(bytes);
    socket.push(bytes);
  }

  /** Lets the event loop turn so many times. */
  async turns(count: number): Promise<void> {
    for (let at = 0; at < count; at++) await turn();
  }

  /** Turns the event loop until the condition holds; false when it has not after 10 s. */
  async until(holds: () => boolean): Promise<boolean> {
    let started: number | undefined;
    while (!holds()) {
      await turn();
      started ??= performance.now();
      if (performance.now() - started > HANGS_MS) return holds();
    }
    return true;
  }

  /**
   * Advances the clock in steps until the condition holds: fast at first, then more and more slowly, because handlers
   * may only begin to wait once a thread has decompressed their message.
   */
  advanceUntil(holds: () => boolean, stepMs: number): Promise<boolean> {
    const started = performance.now();
    let steps = 0;
    return this.until(() => {
      if (holds()) return true;
      const ms = performance.now() - started;
      if (steps > Math.min(ms / 3, 30 + ms / 50)) return false;
      steps++;
      this.clock.advance(stepMs);
      return holds();
    });
  }

  /** Lets work end, then describes everything that was left behind. All connections must be closed. */
  async leftovers(): Promise<readonly string[]> {
    const { clock } = this;
    // A message of a call that has ended may still be decompressing.
    const idle = () =>
      this.running === 0 && this.calls === 0 && clock.alarms === 0 && this.#bufferFaults() === "";
    await this.advanceUntil(idle, LATE_MS);
    const left: string[] = [];
    if (this.running > 0) left.push(`${this.running} handlers`);
    if (this.calls !== 0) left.push(`${this.calls} calls`);
    if (clock.alarms > 0) left.push(`${clock.alarms} alarms`);
    const held = this.#bufferFaults();
    if (held !== "") left.push(held);
    for (const { level, message, fields } of this.log.lines.splice(0)) {
      if (level === "error") left.push(`${message}: ${trace(fields?.["error"])}`);
    }
    return left;
  }

  /** Makes a well-formed call on a connection of its own and returns what was wrong with the reply. */
  async honestCall(): Promise<readonly string[]> {
    const connection = this.connect(true);
    const text = Buffer.from("honest");
    this.send(
      connection,
      Buffer.concat([PREFACE, settings(), call(1, "/fuzz.Service/Echo", text)]),
    );
    await this.until(() => connection.oracle.replies.get(1)?.state === "ended");
    const reply = connection.oracle.reply(1);
    const violations = [...connection.oracle.violations];
    const body = Buffer.concat(reply.body).subarray(5);
    if (!body.equals(text) || reply.trailers[0]?.[1] !== "0")
      violations.push("a well-formed call failed");
    connection.socket.push(null);
    if (!(await this.until(() => connection.socket.destroyed)))
      violations.push("the server did not notice the end of the connection");
    return violations;
  }

  /** Begins a graceful shutdown (GOAWAY) of all connections. */
  drain(): void {
    this.#transport.drain();
  }

  close(): void {
    this.#transport.cut();
    this.#http.cut();
  }

  /** Checks that no request or reply bytes are buffered. The only way to find out is to reserve the whole pool. */
  #bufferFaults(): string {
    const shared = this.#transport;
    if (!shared.reserve(MAX_BUFFERED_TOTAL, true)) return "bytes are still buffered";
    const less = shared.reserve(1, true);
    shared.release(MAX_BUFFERED_TOTAL + (less ? 1 : 0));
    return less ? "more bytes were released than were buffered" : "";
  }
}

function trace(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
