// Fuzzes Sluice's HTTP/2 transport with one connection after another (honest, careless, hostile, recorded) and after
// each checks the invariants that must hold whatever the client sent.

import { heldBytes } from "../../../kit/attack/memory.ts";
import { CODES, PREFACE, ping, settings } from "../../../kit/clients/h2.ts";
import { FuzzClient } from "./client.ts";
import { type Connection, Harness } from "./harness.ts";
import {
  changedFrames,
  forbiddenFrames,
  mutatedRecording,
  type Recording,
  streamErrors,
} from "./mutate.ts";
import { Random, seedOf } from "./random.ts";

/**
 * `honest`: obeys RFC 9113 throughout; `careless`: mostly honest, with stream errors; `hostile`: anything;
 * `recorded`: a real client's bytes with changes.
 */
type Behaviour = "honest" | "careless" | "hostile" | "recorded";

/** Probability that a generated frame is a bad one. */
const BAD_FRAME_SHARE: Readonly<Record<Behaviour, number>> = {
  honest: 0,
  careless: 0.1,
  hostile: 0.2,
  recorded: 0,
};
/** Least connection window that the server leaves to the client: half of its full size. */
const MIN_WINDOW = 512 * 1024;
/** Clock step, a little more than handlers wait, ms. */
const STEP_MS = 101;
/** Number of frames between two memory samples. */
const SAMPLE_EVERY = 100_000;

export interface FuzzOptions {
  readonly seed: number;
  /** Least number of frames to send. */
  readonly frames: number;
  readonly recordings: readonly Recording[];
  /** Run only the case with this index. */
  readonly only?: number;
  readonly progress?: (summary: Summary) => void;
}

export interface Summary {
  frames: number;
  connections: number;
  /** Number of frames that the server sent. */
  framesReceived: number;
  readonly goaways: Record<string, number>;
  readonly resets: Record<string, number>;
  readonly behaviours: Record<string, number>;
  /** Heap and external memory after garbage collection, bytes: after warm-up, and at the end. */
  warm: number;
  held: number;
  /** Peak resident memory, bytes. */
  peak: number;
  seconds: number;
}

export interface Failure {
  readonly index: number;
  readonly behaviour: Behaviour;
  readonly violations: readonly string[];
}

export class Fuzzer {
  readonly summary: Summary = {
    frames: 0,
    connections: 0,
    framesReceived: 0,
    goaways: {},
    resets: {},
    behaviours: {},
    warm: 0,
    held: 0,
    peak: 0,
    seconds: 0,
  };
  readonly #options: FuzzOptions;
  readonly #harness = new Harness();
  readonly #uncaught: unknown[] = [];

  constructor(options: FuzzOptions) {
    this.#options = options;
  }

  /** Runs until `frames` frames were sent and returns the first case that failed, or undefined. */
  async run(): Promise<Failure | undefined> {
    const { frames, only, progress } = this.#options;
    const { summary } = this;
    const started = performance.now();
    const escaped = (thrown: unknown) => this.#uncaught.push(thrown);
    process.on("uncaughtException", escaped);
    process.on("unhandledRejection", escaped);
    let next = SAMPLE_EVERY / 4;
    try {
      for (let index = only ?? 0; summary.frames < frames; index++) {
        const failure = await this.#case(index);
        if (failure !== undefined) return failure;
        if (only !== undefined) break;
        if (summary.frames < next) continue;
        next = summary.frames + SAMPLE_EVERY;
        this.#sampleMemory();
        summary.seconds = (performance.now() - started) / 1_000;
        progress?.(summary);
      }
      this.#sampleMemory();
      return undefined;
    } finally {
      summary.seconds = (performance.now() - started) / 1_000;
      process.off("uncaughtException", escaped);
      process.off("unhandledRejection", escaped);
      this.#harness.close();
    }
  }

  #sampleMemory(): void {
    const { summary } = this;
    summary.peak = Math.max(summary.peak, process.memoryUsage.rss());
    summary.held = heldBytes();
    summary.warm ||= summary.held;
  }

  async #case(index: number): Promise<Failure | undefined> {
    const harness = this.#harness;
    const random = new Random(seedOf(this.#options.seed, index));
    const behaviour = random.pick<Behaviour>([
      "honest",
      "honest",
      "careless",
      "hostile",
      "recorded",
    ]);
    const connection = harness.connect(behaviour === "honest");
    const one = new Case(harness, connection, random, behaviour, this.#options.recordings);
    const violations = [...(await one.run())];
    violations.push(...(await harness.honestCall()));
    violations.push(...(await harness.leftovers()));
    violations.push(...this.#uncaught.splice(0).map((thrown) => `uncaught: ${trace(thrown)}`));
    this.#count(connection, behaviour);
    return violations.length === 0 ? undefined : { index, behaviour, violations };
  }

  #count({ expected, oracle }: Connection, behaviour: Behaviour): void {
    const { summary } = this;
    summary.frames += expected.frames;
    summary.framesReceived += oracle.frames;
    summary.connections = this.#harness.connections;
    count(summary.behaviours, behaviour);
    for (const code of oracle.goaways) count(summary.goaways, CODES[code] ?? "");
    for (const { resets } of oracle.replies.values()) {
      for (const code of resets) count(summary.resets, CODES[code] ?? "");
    }
  }
}

/** One connection, from the client's preface to its end. */
class Case {
  readonly #harness: Harness;
  readonly #connection: Connection;
  readonly #random: Random;
  readonly #behaviour: Behaviour;
  readonly #client: FuzzClient;
  readonly #recordings: readonly Recording[];
  /** Length of the longest segment that the bytes are split into. */
  readonly #longestSegment: number;
  /** The client has been slow, so that the server may close the connection without GOAWAY. */
  #mayBeCut = false;
  /** The client sends only well-formed bytes: nothing may go wrong. */
  #unchanged: boolean;
  #elapsedMs = 0;

  constructor(
    harness: Harness,
    connection: Connection,
    random: Random,
    behaviour: Behaviour,
    recordings: readonly Recording[],
  ) {
    this.#harness = harness;
    this.#connection = connection;
    this.#random = random;
    this.#behaviour = behaviour;
    this.#recordings = recordings;
    this.#client = new FuzzClient(random, connection.oracle);
    this.#longestSegment = random.pick([1, 3, 20, 200, 2_000, 20_000, 200_000]);
    this.#unchanged = behaviour === "honest";
  }

  /** Runs the connection and returns everything that went wrong. */
  async run(): Promise<readonly string[]> {
    const { socket, oracle } = this.#connection;
    // The server sends its SETTINGS and WINDOW_UPDATE in the first turn.
    await this.#harness.turns(1);
    await (this.#behaviour === "recorded" ? this.#replay() : this.#sendGenerated());
    const violations = await this.#settle();
    this.#hangUp();
    if (!(await this.#harness.until(() => socket.destroyed)))
      violations.push("the connection stays open");
    return [...oracle.violations, ...violations];
  }

  async #replay(): Promise<void> {
    const changes = this.#random.below(8);
    this.#unchanged = changes === 0;
    await this.#send(mutatedRecording(this.#random, this.#recordings, changes));
  }

  async #sendGenerated(): Promise<void> {
    const random = this.#random;
    const client = this.#client;
    const broken = BAD_FRAME_SHARE[this.#behaviour];
    await this.#send(Buffer.concat([PREFACE, settings()]));
    const rounds = random.between(1, 40);
    for (let round = 0; round < rounds && !this.#over; round++) {
      const frames = Array.from({ length: random.between(1, 20) }, () => {
        if (!random.chance(broken)) return client.next();
        if (this.#behaviour === "careless" && random.chance(0.95))
          return streamErrors(random, client);
        return random.chance(0.5)
          ? forbiddenFrames(random, client)
          : changedFrames(random, client.next());
      });
      await this.#send(Buffer.concat(frames));
      await this.#pause();
    }
  }

  /** Lets time pass; the client may stop or resume reading, and the server may begin to drain. */
  async #pause(): Promise<void> {
    const random = this.#random;
    const { socket } = this.#connection;
    const honest = this.#behaviour === "honest";
    if (random.chance(0.4)) await this.#harness.turns(1);
    if (random.chance(0.05)) {
      socket.paused = random.chance(0.5);
      this.#mayBeCut = true;
    }
    if (random.chance(0.05)) {
      const ms = honest ? 1 + random.below(60) : random.below(15_000);
      // In all less than the time limit of a request.
      if (honest) this.#elapsedMs += ms;
      if (this.#elapsedMs < 2_000) this.#harness.clock.advance(ms);
    }
    if (random.chance(0.003)) {
      this.#harness.drain();
      this.#client.closing = true;
    }
  }

  get #over(): boolean {
    const { socket, oracle } = this.#connection;
    return socket.destroyed || socket.writesEnded || oracle.errorCode !== 0;
  }

  async #send(bytes: Buffer): Promise<void> {
    const { socket } = this.#connection;
    let longest = this.#longestSegment;
    for (let at = 0; at < bytes.length && !socket.destroyed; ) {
      // Small segments throughout would only make long bodies slow.
      if (at > 500 && longest < 200) longest = 2_000;
      const end = Math.min(bytes.length, at + 1 + this.#random.below(longest));
      this.#harness.send(this.#connection, bytes.subarray(at, end));
      at = end;
      if (this.#random.chance(0.05)) await this.#harness.turns(1);
    }
  }

  /** Checks that the server either still answers a PING or has said why it does not. */
  async #settle(): Promise<string[]> {
    const { socket, expected, oracle } = this.#connection;
    const harness = this.#harness;
    socket.paused = false;
    if (this.#unchanged && this.#behaviour === "honest") await this.#finish();
    // Completing a frame header may announce a payload, which must be completed next.
    while (expected.missingBytes > 0 && !this.#over)
      harness.send(this.#connection, Buffer.alloc(expected.missingBytes));
    const before = expected.pingsSent;
    harness.send(this.#connection, ping("are-here"));
    const asked = expected.pingsSent > before;
    const answered = () => asked && expected.unansweredPings.length === 0;
    const there = await harness.until(() => answered() || this.#over);
    const violations: string[] = [];
    if (!there) violations.push("neither a PING ACK nor the end of the connection");
    if (expected.connectionError !== undefined && !this.#over)
      violations.push(`continues after ${expected.connectionError}`);
    if (socket.writesEnded && oracle.goaways.length === 0)
      violations.push("the connection ended without GOAWAY");
    if (socket.destroyed && oracle.goaways.length === 0 && !this.#mayBeCut)
      violations.push("the connection was destroyed without GOAWAY");
    if (!oracle.betweenFrames)
      violations.push("the server sent an incomplete frame or field block");
    if (answered() && !this.#over && oracle.connectionCredit - expected.dataBytes < MIN_WINDOW) {
      violations.push(
        `a window of ${oracle.connectionCredit - expected.dataBytes} is all that is left`,
      );
    }
    if (this.#unchanged) violations.push(...this.#honestViolations());
    return violations;
  }

  /** Completes the calls of an honest client and reads all replies. */
  async #finish(): Promise<void> {
    const harness = this.#harness;
    const client = this.#client;
    client.closing = true;
    await harness.turns(2);
    harness.send(this.#connection, client.openWindows());
    for (let round = 0; round < 2_000 && !client.uploadsDone && !this.#over; round++) {
      const rest = client.finish();
      if (rest !== undefined) harness.send(this.#connection, rest);
      await harness.turns(1);
    }
    const rest = client.finish();
    if (rest !== undefined) harness.send(this.#connection, rest);
    await harness.turns(2);
    await harness.advanceUntil(() => client.allAnswered || this.#over, STEP_MS);
  }

  #honestViolations(): readonly string[] {
    const { oracle, expected } = this.#connection;
    const violations: string[] = [];
    if (expected.connectionError !== undefined)
      violations.push(`bug in the fuzzer itself: ${expected.connectionError}`);
    if (oracle.errorCode !== 0)
      violations.push(`GOAWAY to an honest client: ${CODES[oracle.errorCode]}`);
    else if (this.#behaviour === "honest") violations.push(...this.#client.violations());
    return violations;
  }

  #hangUp(): void {
    const { socket } = this.#connection;
    const roll = this.#random.below(3);
    if (socket.destroyed) return;
    if (roll === 0) socket.destroy();
    else if (roll === 1) socket.destroy(new Error("ECONNRESET"));
    else socket.push(null);
    // After a GOAWAY with an error the server no longer reads, and gives the peer a while to read.
    if (socket.writesEnded) this.#harness.clock.advance(300);
  }
}

function count(into: Record<string, number>, what: string): void {
  into[what] = (into[what] ?? 0) + 1;
}

function trace(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
