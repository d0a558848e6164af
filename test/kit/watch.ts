// What an attack costs the server: CPU time and memory of a victim process, compared with what honest calls cost
// it in the same run, and whether honest callers go on being served meanwhile.

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import {
  call,
  data,
  END_STREAM,
  grpcFields,
  grpcStatus,
  headers,
  inFrames,
  message,
  type RawOptions,
  type RawPeer,
  rawPeer,
  settings,
  windowUpdate,
} from "./h2.ts";
import { block } from "./hpack-raw.ts";
import type { Counts, Look, VictimOptions } from "./victim.ts";

const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
const WAIT = block(grpcFields("/test.Victim/Wait"));
/** Honest callers take all that comes. */
const HONESTLY = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);
/** Honest calls that are measured, behind as many that only make the code warm. */
const HONEST = 10_000;
const BATCH = 500;
/** What an attack may cost beyond its frames, in honest calls: timers, and code that is not compiled yet. */
const COLD = 1_000;
/** Honest calls with lists of fields this long are measured too: long lists are held to what those cost. */
const LIST = 60_000;
const LISTS = 300;
/**
 * Noise of a machine that does other things too. Bounds tell an attack that costs what its frames are worth from
 * one that costs many times as much; they tell nothing of speed.
 */
const NOISE = 3;
/**
 * An attack that took too much CPU time is made again, so often: the code is warm then, and the machine has had
 * other things to do for a while at most. The least counts.
 */
const ATTEMPTS = 4;
/** CPU time that an honest call may wait for unless an attack's bound says otherwise; ms. */
const WAITED_MS = 150;
/** What a call that comes alone, in parts, costs in calls that come together. */
const ALONE = 60;
/** So many calls the honest caller makes at once after each other; then it takes its time. */
const EAGER = 20;

/** What an attack may cost. */
export interface Bound extends Partial<Counts> {
  /** Frames (or requests, or connections) that the server takes of it. */
  readonly frames: number;
  /** Each may cost the server as much CPU time as this many honest calls; 1 unless told. */
  readonly each?: number;
  /** Bytes of its lists of fields, where they are long: each may cost as much as in an honest call. */
  readonly listed?: number;
  /** CPU time that the server may spend on others while an honest call waits; ms. */
  readonly waited?: number;
  /** Memory that is still held when the attack has been made and goes on; bytes. */
  readonly held?: number;
  /** Resident memory that it may take for a while, garbage included; bytes. */
  readonly peak?: number;
}
/** Of its counts (faults, refused connections, statuses) a bound says the least that the server must have. */
const COUNTED = ["faults", "refused", "codes", "statuses"] as const;

/** What an attack did cost, as differences. */
export interface Cost extends Omit<Look, "peak"> {
  readonly peak: number;
  /** Calls of the honest caller meanwhile. */
  readonly honest: number;
}

export class Victim {
  readonly address: string;
  readonly #process: ChildProcess;
  readonly #tls: ConnectionOptions | undefined;
  /** CPU time of an honest call, and of a byte of its fields where they are many; ms. */
  #call = 0;
  #listed = 0;
  /** Peers of the attack at hand. */
  #peers: RawPeer[] = [];

  constructor(process: ChildProcess, address: string, tls?: ConnectionOptions) {
    this.#process = process;
    this.address = address;
    this.#tls = tls;
  }

  /** Collects garbage first, and begins anew with what is the most. */
  look(): Promise<Look> {
    return this.#ask("look");
  }

  /** Costs next to nothing: for waiting until something is so. */
  glance(): Promise<Look> {
    return this.#ask("glance");
  }

  async #ask(how: "look" | "glance"): Promise<Look> {
    const said = once(this.#process, "message");
    this.#process.send(how);
    const [look] = (await said) as [Look];
    return look;
  }

  async peer(test: TestContext, options?: RawOptions): Promise<RawPeer> {
    const peer = await rawPeer(test, this.address, options);
    this.#peers.push(peer);
    return peer;
  }

  /**
   * Runs an attack beside an honest caller and holds it to its bound. It may be run several times, each by peers of
   * its own.
   */
  async under(test: TestContext, bound: Bound, attack: () => Promise<void>): Promise<Cost> {
    for (let attempt = 1; ; attempt++) {
      await this.#measureHonest(test, bound.listed !== undefined);
      const cost = await this.#run(test, attack);
      const excess = this.#excess(test, bound, cost);
      judge(bound, cost);
      if (excess === "") return cost;
      if (attempt === ATTEMPTS) assert.fail(excess);
      for (const peer of this.#peers) peer.socket.destroy();
      this.#call = 0;
      this.#listed = 0;
    }
  }

  async #run(test: TestContext, attack: () => Promise<void>): Promise<Cost> {
    this.#peers = [];
    // Handlers of an attack before may still be at work.
    let before = await this.look();
    for (; before.running > 0; before = await this.look()) await after(20);
    // To look costs, too.
    const { cpu } = await this.glance();
    const beside = this.#honest(test);
    try {
      await beside.first;
      await attack();
    } finally {
      await beside.stop();
    }
    const now = await this.look();
    return {
      ...now,
      ...differences(now, before),
      cpu: now.cpu - cpu,
      held: now.held - before.held,
      peak: now.peak - before.peak,
      errors: now.errors.slice(before.errors.length),
      honest: beside.count,
    };
  }

  /** What was too much of CPU time; "" when nothing was. */
  #excess(test: TestContext, bound: Bound, cost: Cost): string {
    const { frames, each = 1, listed = 0, waited = WAITED_MS } = bound;
    const lists = (listed * this.#listed) / this.#call;
    const most = Math.round((frames * each + lists + cost.honest * ALONE + COLD) * NOISE);
    const calls = Math.round(cost.cpu / this.#call);
    test.diagnostic(
      `CPU of ${calls} calls, ${(calls / most).toFixed(2)} of its bound (${frames} frames, ${cost.honest} honest ` +
        `calls); waited ${cost.waited.toFixed(1)} ms; held ${show(cost.held)}; peak ${show(cost.peak)}; ` +
        JSON.stringify(COUNTED.map((kind) => cost[kind])),
    );
    if (calls > most) return `took the CPU time of ${calls} calls, at most ${most} may be`;
    if (cost.waited <= waited) return "";
    return `an honest call waited ${cost.waited} ms of CPU time, at most ${waited} may be`;
  }

  #caller(test: TestContext): Promise<RawPeer> {
    const greeting = HONESTLY;
    return rawPeer(test, this.address, { greeting, ...(this.#tls && { tls: this.#tls }) });
  }

  async #measureHonest(test: TestContext, withLists: boolean): Promise<void> {
    if (this.#call === 0) this.#call = await this.#measure(test, HONEST, short);
    if (!withLists || this.#listed > 0) return;
    const long = await this.#measure(test, LISTS, lists());
    this.#listed = Math.max(0, long - this.#call) / LIST;
  }

  /** CPU time of one of so many calls. */
  async #measure(test: TestContext, count: number, make: Make): Promise<number> {
    const peer = await this.#caller(test);
    await many(peer, count, make);
    const before = await this.look();
    await many(peer, count, make);
    const { cpu } = await this.look();
    peer.socket.destroy();
    return (cpu - before.cpu) / count;
  }

  /** Calls and calls again on a connection of its own until it is stopped, and then once more. */
  #honest(test: TestContext) {
    let going = true;
    let count = 0;
    let started = () => {};
    const first = new Promise<void>((resolve) => {
      started = resolve;
    });
    const run = (async () => {
      const peer = await this.#caller(test);
      for (let more = true; more; ) {
        more = going;
        await honest(peer, count++);
        started();
        await after(count < EAGER ? 1 : 10);
      }
      peer.socket.destroy();
    })();
    run.catch(() => started());
    return {
      first,
      get count() {
        return count;
      },
      stop: () => {
        going = false;
        return run;
      },
    };
  }
}

/** What must be so however often the attack is made. */
function judge(bound: Bound, cost: Cost): void {
  const { held = 16 * MB, peak = 96 * MB } = bound;
  assert.ok(cost.held <= held, `holds ${show(cost.held)}, at most ${show(held)} may be`);
  assert.ok(cost.peak <= peak, `took ${show(cost.peak)}, at most ${show(peak)} may be`);
  for (const kind of COUNTED) {
    const seen: Readonly<Record<string, number>> = cost[kind];
    for (const [name, least] of Object.entries(bound[kind] ?? {})) {
      const times = seen[name] ?? 0;
      assert.ok(times >= least, `${kind}: ${name} ${times} times, at least ${least} were wanted`);
    }
  }
  assert.deepEqual(cost.errors, [], "an attack is no error of ours");
}

const show = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`;

/** One call; of every other one the message comes in two parts, so that the server has to keep the first. */
async function honest(peer: RawPeer, number: number): Promise<void> {
  const stream = peer.next();
  const now = Buffer.alloc(8);
  now.writeDoubleBE(Number(process.hrtime.bigint()) / 1e6);
  const parts = message(now);
  const cut = number % 2 === 0 ? parts.length : 7;
  await peer.send(headers(stream, WAIT), data(stream, parts.subarray(0, cut)));
  if (cut < parts.length) await peer.pong();
  await peer.send(data(stream, parts.subarray(cut), END_STREAM));
  const outcome = await peer.outcome(stream);
  const told = `${grpcStatus(outcome)} ${outcome.trailers["grpc-message"]} ${outcome.reset}`;
  assert.equal(grpcStatus(outcome), "0", `an honest caller was not served: ${told}`);
  peer.frames.length = 0;
}

/** A whole call on that stream. */
type Make = (stream: number) => Buffer;

const short: Make = (stream) => call(stream, SAY, Buffer.from("honest"));

/** Calls with long lists of fields, no two of them the same. */
function lists(): Make {
  const fields = block(grpcFields(SAY, ["x-long", "l".repeat(LIST)]));
  const end = message();
  return (stream) => {
    const own = block([["x-own", String(stream)]]);
    return Buffer.concat([
      inFrames(stream, Buffer.concat([fields, own]), 0),
      data(stream, end, END_STREAM),
    ]);
  };
}

async function many(peer: RawPeer, count: number, make: Make): Promise<void> {
  for (let left = count; left > 0; left -= BATCH) {
    const calls = Array.from({ length: Math.min(left, BATCH) }, () => make(peer.next()));
    const last = peer.last;
    await peer.send(...calls);
    const { reset } = await peer.outcome(last);
    assert.equal(reset, undefined, "an honest caller was served");
    peer.frames.length = 0;
  }
}

function differences(now: Counts, before: Counts): Counts {
  const difference = (kind: (typeof COUNTED)[number]) => {
    const was: Readonly<Record<string, number>> = before[kind];
    return Object.fromEntries(
      Object.entries(now[kind])
        .map(([name, count]) => [name, count - (was[name] ?? 0)] as const)
        .filter(([, count]) => count > 0),
    );
  };
  const [faults, refused, codes, statuses] = COUNTED.map(difference);
  return {
    faults: faults ?? {},
    refused: refused ?? {},
    codes: codes ?? {},
    statuses: statuses ?? {},
  };
}

/** A victim that ends with the test. Where it speaks TLS, `tls` is what honest callers offer. */
export async function victim(
  test: TestContext,
  options: VictimOptions = {},
  tls?: ConnectionOptions,
): Promise<Victim> {
  const { grpc, ...rest } = options.settings ?? {};
  const settings = { grpc: { transport: "own" as const, ...grpc }, ...rest };
  const program = join(import.meta.dirname, "victim.ts");
  const child = fork(program, [JSON.stringify({ ...options, settings })], {
    execArgv: ["--expose-gc"],
  });
  const ended = once(child, "exit");
  test.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const [address] = (await Promise.race([
    once(child, "message"),
    ended.then(() => assert.fail("the victim did not start")),
  ])) as [string];
  return new Victim(child, address, tls);
}
