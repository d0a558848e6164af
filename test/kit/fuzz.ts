// Fuzzes the own HTTP/2 transport: connection after connection, honest, careless and hostile ones, each followed by
// what must hold whatever it was sent.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { careless, changed, forbidden, mutated, type Recording } from "./fuzz-break.ts";
import { Dice, seedOf } from "./fuzz-dice.ts";
import { Maker } from "./fuzz-make.ts";
import { type Line, World } from "./fuzz-world.ts";
import { CODES, PREFACE, ping, settings } from "./h2.ts";

/** `honest`: nothing may go wrong; `careless`: mostly honest; `hostile`: anything; `recorded`: a caller's bytes, changed. */
type Manner = "honest" | "careless" | "hostile" | "recorded";

/** How often a frame is not what it should be. */
const BROKEN: Readonly<Record<Manner, number>> = {
  honest: 0,
  careless: 0.1,
  hostile: 0.2,
  recorded: 0,
};
/** What the server keeps of the connection's window for the client, at least: half of it. */
const LEAST_WINDOW = 512 * 1024;
/** A little more than handlers wait, ms. */
const STEP_MS = 101;
/** Between two looks at memory, frames. */
const LOOK_EVERY = 100_000;

export interface FuzzOptions {
  readonly seed: number;
  /** Frames to be sent, at least. */
  readonly frames: number;
  readonly recordings: readonly Recording[];
  /** This case alone. */
  readonly only?: number;
  readonly progress?: (summary: Summary) => void;
}

export interface Summary {
  frames: number;
  connections: number;
  /** Frames that the server sent. */
  answers: number;
  readonly goaways: Record<string, number>;
  readonly resets: Record<string, number>;
  readonly manners: Record<string, number>;
  /** Heap and external memory after a collection, bytes: when the fuzzer was warm, and at the end. */
  warm: number;
  held: number;
  /** Resident, bytes. */
  peak: number;
  seconds: number;
}

export interface Failure {
  readonly index: number;
  readonly manner: Manner;
  readonly wrong: readonly string[];
}

export class Fuzzer {
  readonly summary: Summary = {
    ...{ frames: 0, connections: 0, answers: 0, goaways: {}, resets: {}, manners: {} },
    ...{ warm: 0, held: 0, peak: 0, seconds: 0 },
  };
  readonly #options: FuzzOptions;
  readonly #world = new World();
  readonly #collect: () => void;
  readonly #escaped: unknown[] = [];

  constructor(options: FuzzOptions) {
    this.#options = options;
    setFlagsFromString("--expose-gc");
    this.#collect = runInNewContext("gc");
  }

  /** The first case that went wrong; undefined: none did. */
  async run(): Promise<Failure | undefined> {
    const { frames, only, progress } = this.#options;
    const { summary } = this;
    const started = performance.now();
    const escaped = (thrown: unknown) => this.#escaped.push(thrown);
    process.on("uncaughtException", escaped);
    process.on("unhandledRejection", escaped);
    let next = LOOK_EVERY / 4;
    try {
      for (let index = only ?? 0; summary.frames < frames; index++) {
        const failure = await this.#case(index);
        if (failure !== undefined) return failure;
        if (only !== undefined) break;
        if (summary.frames < next) continue;
        next = summary.frames + LOOK_EVERY;
        this.#look();
        summary.seconds = (performance.now() - started) / 1_000;
        progress?.(summary);
      }
      this.#look();
      return undefined;
    } finally {
      summary.seconds = (performance.now() - started) / 1_000;
      process.off("uncaughtException", escaped);
      process.off("unhandledRejection", escaped);
      this.#world.close();
    }
  }

  #look(): void {
    const { summary } = this;
    // Twice: buffers that the first one finds are only freed by the second.
    this.#collect();
    this.#collect();
    const { heapUsed, external, rss } = process.memoryUsage();
    summary.held = heapUsed + external;
    summary.warm ||= summary.held;
    summary.peak = Math.max(summary.peak, rss);
  }

  async #case(index: number): Promise<Failure | undefined> {
    const world = this.#world;
    const dice = new Dice(seedOf(this.#options.seed, index));
    const manner = dice.pick<Manner>(["honest", "honest", "careless", "hostile", "recorded"]);
    const line = world.connect(manner === "honest");
    const one = new Case(world, line, dice, manner, this.#options.recordings);
    const wrong = [...(await one.run())];
    wrong.push(...(await world.honest()));
    wrong.push(...(await world.leftovers()));
    wrong.push(...this.#escaped.splice(0).map((thrown) => `escaped: ${trace(thrown)}`));
    this.#count(line, manner);
    return wrong.length === 0 ? undefined : { index, manner, wrong };
  }

  #count({ sent, judge }: Line, manner: Manner): void {
    const { summary } = this;
    summary.frames += sent.frames;
    summary.answers += judge.frames;
    summary.connections = this.#world.connections;
    count(summary.manners, manner);
    for (const code of judge.goaways) count(summary.goaways, CODES[code] ?? "");
    for (const { resets } of judge.replies.values()) {
      for (const code of resets) count(summary.resets, CODES[code] ?? "");
    }
  }
}

/** One connection from its greeting to its end. */
class Case {
  readonly #world: World;
  readonly #line: Line;
  readonly #dice: Dice;
  readonly #manner: Manner;
  readonly #maker: Maker;
  readonly #recordings: readonly Recording[];
  /** How its bytes are cut: longest part. */
  readonly #longest: number;
  /** Such a client may be cut off. */
  #slow = false;
  /** Nothing was changed: nothing may go wrong. */
  #faithful: boolean;
  #waited = 0;

  constructor(
    world: World,
    line: Line,
    dice: Dice,
    manner: Manner,
    recordings: readonly Recording[],
  ) {
    this.#world = world;
    this.#line = line;
    this.#dice = dice;
    this.#manner = manner;
    this.#recordings = recordings;
    this.#maker = new Maker(dice, line.judge);
    this.#longest = dice.pick([1, 3, 20, 200, 2_000, 20_000, 200_000]);
    this.#faithful = manner === "honest";
  }

  /** What was wrong. */
  async run(): Promise<readonly string[]> {
    const { socket, judge } = this.#line;
    // The server's settings and window come with the first turn.
    await this.#world.turns(1);
    await (this.#manner === "recorded" ? this.#replay() : this.#speak());
    const wrong = await this.#settle();
    this.#hangUp();
    if (!(await this.#world.until(() => socket.destroyed))) wrong.push("the connection stays open");
    return [...judge.wrong, ...wrong];
  }

  async #replay(): Promise<void> {
    const changes = this.#dice.below(8);
    this.#faithful = changes === 0;
    await this.#send(mutated(this.#dice, this.#recordings, changes));
  }

  async #speak(): Promise<void> {
    const dice = this.#dice;
    const maker = this.#maker;
    const broken = BROKEN[this.#manner];
    await this.#send(Buffer.concat([PREFACE, settings()]));
    const rounds = dice.between(1, 40);
    for (let round = 0; round < rounds && !this.#over; round++) {
      const frames = Array.from({ length: dice.between(1, 20) }, () => {
        if (!dice.hits(broken)) return maker.next();
        if (this.#manner === "careless" && dice.hits(0.95)) return careless(dice, maker);
        return dice.hits(0.5) ? forbidden(dice, maker) : changed(dice, maker.next());
      });
      await this.#send(Buffer.concat(frames));
      await this.#pause();
    }
  }

  /** Time passes, the client reads or does not, the server begins to drain. */
  async #pause(): Promise<void> {
    const dice = this.#dice;
    const { socket } = this.#line;
    const honest = this.#manner === "honest";
    if (dice.hits(0.4)) await this.#world.turns(1);
    if (dice.hits(0.05)) {
      socket.deaf = dice.hits(0.5);
      this.#slow = true;
    }
    if (dice.hits(0.05)) {
      const ms = honest ? 1 + dice.below(60) : dice.below(15_000);
      // Less in all than honest callers have for a request.
      if (honest) this.#waited += ms;
      if (this.#waited < 2_000) this.#world.clock.advance(ms);
    }
    if (dice.hits(0.003)) {
      this.#world.drain();
      this.#maker.leaving = true;
    }
  }

  get #over(): boolean {
    const { socket, judge } = this.#line;
    return socket.destroyed || socket.finished || judge.failure !== 0;
  }

  async #send(bytes: Buffer): Promise<void> {
    const { socket } = this.#line;
    let longest = this.#longest;
    for (let at = 0; at < bytes.length && !socket.destroyed; ) {
      // Small parts throughout would only make the long bodies slow.
      if (at > 500 && longest < 200) longest = 2_000;
      const end = Math.min(bytes.length, at + 1 + this.#dice.below(longest));
      this.#world.send(this.#line, bytes.subarray(at, end));
      at = end;
      if (this.#dice.hits(0.05)) await this.#world.turns(1);
    }
  }

  /** Whatever was sent, the server either goes on or has said why it does not. */
  async #settle(): Promise<string[]> {
    const { socket, sent, judge } = this.#line;
    const world = this.#world;
    socket.deaf = false;
    if (this.#faithful && this.#manner === "honest") await this.#finish();
    // First a head that may announce a payload, then that.
    while (sent.missing > 0 && !this.#over) world.send(this.#line, Buffer.alloc(sent.missing));
    const before = sent.asked;
    world.send(this.#line, ping("are-here"));
    const asked = sent.asked > before;
    const answered = () => asked && sent.pings.length === 0;
    const there = await world.until(() => answered() || this.#over);
    const wrong: string[] = [];
    if (!there) wrong.push("neither an answer to a PING nor an end");
    if (sent.fatal !== undefined && !this.#over) wrong.push(`goes on after ${sent.fatal}`);
    if (socket.finished && judge.goaways.length === 0) wrong.push("an end without a word");
    if (socket.destroyed && judge.goaways.length === 0 && !this.#slow) wrong.push("cut off");
    if (!judge.whole) wrong.push("a frame or header block of the server is not whole");
    if (answered() && !this.#over && judge.allowance - sent.data < LEAST_WINDOW) {
      wrong.push(`a window of ${judge.allowance - sent.data} is left`);
    }
    if (this.#faithful) wrong.push(...this.#complaints());
    return wrong;
  }

  /** An honest client brings its calls to an end and takes all replies. */
  async #finish(): Promise<void> {
    const world = this.#world;
    const maker = this.#maker;
    maker.leaving = true;
    await world.turns(2);
    world.send(this.#line, maker.openWindows());
    for (let round = 0; round < 2_000 && !maker.done && !this.#over; round++) {
      const rest = maker.finish();
      if (rest !== undefined) world.send(this.#line, rest);
      await world.turns(1);
    }
    const rest = maker.finish();
    if (rest !== undefined) world.send(this.#line, rest);
    await world.turns(2);
    await world.later(() => maker.answered || this.#over, STEP_MS);
  }

  #complaints(): readonly string[] {
    const { judge, sent } = this.#line;
    const wrong: string[] = [];
    if (sent.fatal !== undefined) wrong.push(`the fuzzer itself is at fault: ${sent.fatal}`);
    if (judge.failure !== 0) wrong.push(`an honest client is told ${CODES[judge.failure]}`);
    else if (this.#manner === "honest") wrong.push(...this.#maker.complaints());
    return wrong;
  }

  #hangUp(): void {
    const { socket } = this.#line;
    const roll = this.#dice.below(3);
    if (socket.destroyed) return;
    if (roll === 0) socket.destroy();
    else if (roll === 1) socket.destroy(new Error("ECONNRESET"));
    else socket.push(null);
    // Who was told its fault is not listened to, and gets a while to read it.
    if (socket.finished) this.#world.clock.advance(300);
  }
}

function count(into: Record<string, number>, what: string): void {
  into[what] = (into[what] ?? 0) + 1;
}

function trace(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
