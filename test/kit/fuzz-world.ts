// What is fuzzed: the own HTTP/2 transport with gRPC services and JSON routes behind it, on connections in memory and
// on a clock that stands still, everything that it may leave behind counted.

import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { grpcAnswerer } from "#serve/grpc/answerer.ts";
import type { Shared } from "#serve/h2/connection.ts";
import type { Answerer } from "#serve/h2/exchange.ts";
import { MAX_HELD_IN_ALL } from "#serve/h2/limits.ts";
import { h2Transport } from "#serve/h2/transport.ts";
import type { Service } from "#serve/handler.ts";
import { httpTransport } from "#serve/http/transport.ts";
import type { ServerMeter } from "#serve/settings.ts";
import { type FakeClock, fakeClock } from "./clock.ts";
import { Judge } from "./fuzz-judge.ts";
import { Sent } from "./fuzz-sent.ts";
import { ROUTES, serviceOn } from "./fuzz-services.ts";
import { MemorySocket } from "./fuzz-wire.ts";
import { call, PREFACE, settings } from "./h2.ts";
import { memoryLog, portSettings } from "./port.ts";

/** What takes longer hangs. Nearly everything takes a few turns; decompression waits for threads of a busy machine. */
const HANGS_MS = 10_000;
/** How long a connection that was told its fault may linger, and handlers may work, ms. */
const LATE_MS = 1_000;

export interface Line {
  readonly socket: MemorySocket;
  readonly sent: Sent;
  readonly judge: Judge;
  /** Gets what the server sends, beside the judge. */
  heard?: (bytes: Buffer) => void;
}

export class World {
  readonly clock: FakeClock = fakeClock();
  readonly log = memoryLog();
  /** Calls that have begun and not ended, by the meter; handlers that run. */
  calls = 0;
  running = 0;
  connections = 0;
  readonly faults: Record<string, number> = {};
  readonly #transport: ReturnType<typeof h2Transport>;
  readonly #http: ReturnType<typeof httpTransport>;

  constructor(services?: readonly Service[]) {
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
      http2Fault: (fault) => {
        this.faults[fault] = (this.faults[fault] ?? 0) + 1;
      },
    };
    const around = { clock, log, meter };
    const fuzzed = serviceOn(clock, (by) => {
      this.running += by;
    });
    const calls = grpcAnswerer(services ?? [fuzzed], around);
    this.#http = httpTransport({ routes: ROUTES, settings: http, ...around });
    const answer: Answerer = (stream, head, last) =>
      (calls.answers(head) ? calls.answer : this.#http.answerer)(stream, head, last);
    this.#transport = h2Transport({ answer, grpc, http, ...around, chance: () => 0.5 });
  }

  /** `keep`: bodies of replies are kept. */
  connect(keep = false): Line {
    this.connections++;
    const sent = new Sent();
    const judge = new Judge(sent, keep);
    const socket: MemorySocket = new MemorySocket((bytes) => {
      judge.hear(bytes);
      line.heard?.(bytes);
    });
    const line: Line = { socket, sent, judge };
    // As the port's reception does: a connection that breaks is an ordinary end.
    socket.on("error", () => undefined);
    // The transport uses of a socket what this one has.
    this.#transport.inject(socket as unknown as Socket);
    return line;
  }

  /** Sends the peer's bytes; nobody reads them when the server has closed the connection. */
  send({ socket, sent }: Line, bytes: Buffer): void {
    if (socket.destroyed) return;
    sent.push(bytes);
    socket.push(bytes);
  }

  /** Lets what is due happen. */
  async turns(count: number): Promise<void> {
    for (let at = 0; at < count; at++) await turn();
  }

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
   * Moves time on until it holds: at once, then more and more slowly, as handlers may begin to wait when threads have
   * decompressed what they are to handle.
   */
  later(holds: () => boolean, stepMs: number): Promise<boolean> {
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

  /** Lets work end, then says what is left of it where nothing may be. All connections must be closed. */
  async leftovers(): Promise<readonly string[]> {
    const { clock } = this;
    // A message of a call that is gone may still be decompressed.
    const quiet = () =>
      this.running === 0 && this.calls === 0 && clock.alarms === 0 && this.#held() === "";
    await this.later(quiet, LATE_MS);
    const left: string[] = [];
    if (this.running > 0) left.push(`${this.running} handlers`);
    if (this.calls !== 0) left.push(`${this.calls} calls`);
    if (clock.alarms > 0) left.push(`${clock.alarms} alarms`);
    const held = this.#held();
    if (held !== "") left.push(held);
    for (const { level, message, fields } of this.log.lines.splice(0)) {
      if (level === "error") left.push(`${message}: ${trace(fields?.["error"])}`);
    }
    return left;
  }

  /** A call that any client makes, on a connection of its own. */
  async honest(): Promise<readonly string[]> {
    const line = this.connect(true);
    const text = Buffer.from("honest");
    this.send(line, Buffer.concat([PREFACE, settings(), call(1, "/fuzz.Service/Echo", text)]));
    await this.until(() => line.judge.replies.get(1)?.state === "ended");
    const reply = line.judge.reply(1);
    const wrong = [...line.judge.wrong];
    const body = Buffer.concat(reply.body).subarray(5);
    if (!body.equals(text) || reply.trailers[0]?.[1] !== "0") wrong.push("an honest call failed");
    line.socket.push(null);
    if (!(await this.until(() => line.socket.destroyed))) wrong.push("an honest end is not seen");
    return wrong;
  }

  /** Asks all connections to leave. */
  drain(): void {
    this.#transport.drain(0);
  }

  close(): void {
    this.#transport.cut();
    this.#http.cut();
  }

  /** Bytes that are held of requests and replies must be none. There is no other look at them than to hold some. */
  #held(): string {
    const shared = this.#transport as unknown as Shared;
    if (!shared.hold(MAX_HELD_IN_ALL, true)) return "bytes are held";
    const less = shared.hold(1, true);
    shared.release(MAX_HELD_IN_ALL + (less ? 1 : 0));
    return less ? "more bytes are released than were held" : "";
  }
}

function trace(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
