// Measures what an attack costs the server: CPU time and memory of a target process, compared with what honest calls
// cost it in the same run, and whether honest callers are still served meanwhile.

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
  headerFrames,
  headers,
  message,
  type RawOptions,
  type RawPeer,
  rawPeer,
  settings,
  windowUpdate,
} from "../clients/h2.ts";
import { block } from "../clients/hpack.ts";
import type { Counts, Snapshot, TargetOptions } from "./target-server.ts";

const MB = 1024 * 1024;
const SAY = "/test.Target/Say";
const WAIT = block(grpcFields("/test.Target/Wait"));
const GATHER = block(grpcFields("/test.Target/Gather"));
const DEADLINE_EXCEEDED = "4";
/** Honest callers have windows large enough for any reply. */
const LARGE_WINDOWS = Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]);
/** Number of honest calls that are measured, after as many for warm-up. */
const HONEST_CALLS = 10_000;
const BATCH = 500;
/** Allowed cost of an attack in addition to its frames, in honest calls: timers, and code that is not compiled yet. */
const COLD_START_CALLS = 1_000;
/** Honest calls with field lists of this many bytes are measured too, as the standard for attacks with long lists. */
const LONG_LIST_BYTES = 60_000;
const LONG_LIST_CALLS = 300;
/**
 * Factor for the noise of a machine that does other things too. The bounds tell an attack that costs what its frames
 * are worth from one that costs many times as much; they do not measure speed.
 */
const NOISE = 3;
/**
 * Number of attempts for an attack that took too much CPU time: later ones find warm code and perhaps an idle
 * machine. One attempt within its bound is enough.
 */
const ATTEMPTS = 4;
/** Default bound on the CPU time that the server may spend on others while an honest call waits, ms. */
const MAX_WAITED_MS = 150;
/** Cost of an honest call that arrives alone and in parts, in calls that arrive together. */
const SINGLE_CALL_COST = 60;
/** Number of calls that the honest caller makes 1 ms apart, before it slows down to 10 ms. */
const FAST_CALLS = 20;

/** The allowed cost of an attack, and the counts that it must cause at least. */
export interface Bound extends Partial<Counts> {
  /** Number of frames (or requests, or connections) of the attack that the server processes. */
  readonly frames: number;
  /** CPU time that each frame may cost, in honest calls; default 1. */
  readonly callsPerFrame?: number;
  /** Total bytes of long field lists; each byte may cost as much as one of an honest call. */
  readonly headerBytes?: number;
  /** CPU time that the server may spend on others while an honest call waits, ms. */
  readonly waited?: number;
  /** Memory that may still be held once the attack has been made and its connections are open, bytes. */
  readonly held?: number;
  /** Growth of the peak resident memory, garbage included, bytes. */
  readonly peak?: number;
}
/** The counts for which a bound gives the least value that the server must have counted. */
const COUNT_KINDS = ["faults", "refused", "codes", "statuses"] as const;

/** The compiler accepts unknown keys in bounds that are built up from several objects. */
const BOUND_KEYS: ReadonlySet<string> = new Set([
  ...COUNT_KINDS,
  "frames",
  "callsPerFrame",
  "headerBytes",
  "waited",
  "held",
  "peak",
]);

/** The cost of an attack, as differences between two snapshots. */
export interface Cost extends Omit<Snapshot, "peak"> {
  readonly peak: number;
  /** Number of calls that the honest caller made meanwhile. */
  readonly honest: number;
}

export class TargetServer {
  readonly address: string;
  readonly #process: ChildProcess;
  readonly #tls: ConnectionOptions | undefined;
  /** CPU time of an honest call, and of a byte of a long field list, ms; 0 until measured. */
  #cpuPerCall = 0;
  #cpuPerHeaderByte = 0;
  /** Peers of the current attack. */
  #peers: RawPeer[] = [];

  constructor(process: ChildProcess, address: string, tls?: ConnectionOptions) {
    this.#process = process;
    this.address = address;
    this.#tls = tls;
  }

  /** A snapshot after a garbage collection; it resets the peaks. */
  snapshot(): Promise<Snapshot> {
    return this.#ask("full");
  }

  /** A snapshot without garbage collection: cheap enough for polling. */
  quickSnapshot(): Promise<Snapshot> {
    return this.#ask("quick");
  }

  async #ask(kind: "full" | "quick"): Promise<Snapshot> {
    const reply = once(this.#process, "message");
    this.#process.send(kind);
    const [snapshot] = (await reply) as [Snapshot];
    return snapshot;
  }

  async peer(test: TestContext, options?: RawOptions): Promise<RawPeer> {
    const peer = await rawPeer(test, this.address, options);
    this.#peers.push(peer);
    return peer;
  }

  /**
   * Runs an attack beside an honest caller and asserts its bound. The attack may run several times, each with peers
   * of its own.
   */
  async withstand(test: TestContext, bound: Bound, attack: () => Promise<void>): Promise<Cost> {
    const unknown = Object.keys(bound).filter((key) => !BOUND_KEYS.has(key));
    assert.deepEqual(unknown, [], "not a bound, so that it would not be checked");
    for (let attempt = 1; ; attempt++) {
      await this.#measureHonest(test, bound.headerBytes !== undefined);
      const cost = await this.#run(test, attack);
      const excess = this.#excess(test, bound, cost);
      assertBounds(bound, cost);
      if (excess === "") return cost;
      if (attempt === ATTEMPTS) assert.fail(excess);
      for (const peer of this.#peers) peer.socket.destroy();
      this.#cpuPerCall = 0;
      this.#cpuPerHeaderByte = 0;
    }
  }

  /**
   * Asserts that `load` leaves nothing behind, but for `most` bytes. What leaks is left behind each time that the load
   * runs; compiled code and tables that have grown are not: one time that leaves less is enough.
   */
  async releases(most: number, load: () => Promise<void>): Promise<void> {
    const left: number[] = [];
    let { held } = await this.snapshot();
    while (left.length < ATTEMPTS) {
      await load();
      const now = await this.snapshot();
      const more = now.held - held;
      if (more < most) return;
      left.push(more);
      held = now.held;
    }
    assert.fail(`leaves ${left.map(show).join(", ")} behind, one time after another`);
  }

  async #run(test: TestContext, attack: () => Promise<void>): Promise<Cost> {
    this.#peers = [];
    // Handlers of an earlier attack may still be at work.
    let before = await this.snapshot();
    for (; before.running > 0; before = await this.snapshot()) await after(20);
    // The full snapshot costs CPU time itself.
    const { cpu } = await this.quickSnapshot();
    const traffic = this.#honestTraffic(test);
    try {
      await traffic.first;
      await attack();
    } finally {
      await traffic.stop();
    }
    const now = await this.snapshot();
    return {
      ...now,
      ...differences(now, before),
      cpu: now.cpu - cpu,
      held: now.held - before.held,
      peak: now.peak - before.peak,
      errors: now.errors.slice(before.errors.length),
      honest: traffic.count,
    };
  }

  /** Describes which CPU bound was exceeded; "" when none was. */
  #excess(test: TestContext, bound: Bound, cost: Cost): string {
    const {
      frames,
      callsPerFrame: each = 1,
      headerBytes: listed = 0,
      waited = MAX_WAITED_MS,
    } = bound;
    const lists = (listed * this.#cpuPerHeaderByte) / this.#cpuPerCall;
    const most = Math.round(
      (frames * each + lists + cost.honest * SINGLE_CALL_COST + COLD_START_CALLS) * NOISE,
    );
    const calls = Math.round(cost.cpu / this.#cpuPerCall);
    test.diagnostic(
      `CPU time of ${calls} calls, ${(calls / most).toFixed(2)} of the bound (${frames} frames, ${cost.honest} honest ` +
        `calls); waited ${cost.waited.toFixed(1)} ms; held ${show(cost.held)}; peak ${show(cost.peak)}; ` +
        JSON.stringify(COUNT_KINDS.map((kind) => cost[kind])),
    );
    if (calls > most) return `took the CPU time of ${calls} calls; at most ${most} are allowed`;
    if (cost.waited <= waited) return "";
    return `an honest call waited ${cost.waited} ms of CPU time; at most ${waited} are allowed`;
  }

  #honestPeer(test: TestContext): Promise<RawPeer> {
    return rawPeer(test, this.address, {
      initialFrames: LARGE_WINDOWS,
      ...(this.#tls && { tls: this.#tls }),
    });
  }

  async #measureHonest(test: TestContext, withLists: boolean): Promise<void> {
    if (this.#cpuPerCall === 0) this.#cpuPerCall = await this.#measure(test, HONEST_CALLS, short);
    if (!withLists || this.#cpuPerHeaderByte > 0) return;
    const long = await this.#measure(test, LONG_LIST_CALLS, longListCalls());
    this.#cpuPerHeaderByte = Math.max(0, long - this.#cpuPerCall) / LONG_LIST_BYTES;
  }

  /** CPU time of one call, averaged over `count` calls after as many for warm-up; ms. */
  async #measure(test: TestContext, count: number, make: MakeCall): Promise<number> {
    const peer = await this.#honestPeer(test);
    await many(peer, count, make);
    const before = await this.snapshot();
    await many(peer, count, make);
    const { cpu } = await this.snapshot();
    peer.socket.destroy();
    return (cpu - before.cpu) / count;
  }

  /** Makes one call after another on a connection of its own until it is stopped, and then one more. */
  #honestTraffic(test: TestContext) {
    let going = true;
    let count = 0;
    let started = () => {};
    const first = new Promise<void>((resolve) => {
      started = resolve;
    });
    const run = (async () => {
      const peer = await this.#honestPeer(test);
      for (let more = true; more; ) {
        more = going;
        await honest(peer, count++);
        started();
        await after(count < FAST_CALLS ? 1 : 10);
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

/** Asserts the bounds that hold in every attempt. */
function assertBounds(bound: Bound, cost: Cost): void {
  const { held = 16 * MB, peak = 96 * MB } = bound;
  assert.ok(cost.held <= held, `holds ${show(cost.held)}; at most ${show(held)} is allowed`);
  assert.ok(cost.peak <= peak, `peak of ${show(cost.peak)}; at most ${show(peak)} is allowed`);
  for (const kind of COUNT_KINDS) {
    const seen: Readonly<Record<string, number>> = cost[kind];
    for (const [name, least] of Object.entries(bound[kind] ?? {})) {
      const times = seen[name] ?? 0;
      assert.ok(times >= least, `${kind}: ${name} ${times} times; at least ${least} are required`);
    }
  }
  assert.deepEqual(cost.errors, [], "the attack caused an error log line");
}

/**
 * Resolves when the server's `read_timeout` has passed: it has ended a call that stopped in the middle of its message,
 * which is counted as a fault.
 */
export async function readTimeoutPassed(peer: RawPeer): Promise<void> {
  const id = peer.nextStream();
  await peer.send(headers(id, GATHER), data(id, message(Buffer.alloc(100)).subarray(0, 50)));
  assert.equal(grpcStatus(await peer.outcome(id)), DEADLINE_EXCEEDED, peer.describeFrames());
}

const show = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`;

/** Makes one call; every other call sends its message in two parts, so that the server must buffer the first. */
async function honest(peer: RawPeer, number: number): Promise<void> {
  const stream = peer.nextStream();
  const now = Buffer.alloc(8);
  now.writeDoubleBE(Number(process.hrtime.bigint()) / 1e6);
  const parts = message(now);
  const cut = number % 2 === 0 ? parts.length : 7;
  await peer.send(headers(stream, WAIT), data(stream, parts.subarray(0, cut)));
  if (cut < parts.length) await peer.pingRoundTrip();
  await peer.send(data(stream, parts.subarray(cut), END_STREAM));
  const outcome = await peer.outcome(stream);
  const details = `${grpcStatus(outcome)} ${outcome.trailers["grpc-message"]} ${outcome.reset}`;
  assert.equal(grpcStatus(outcome), "0", `an honest caller was not served: ${details}`);
  peer.frames.length = 0;
}

/** The bytes of a complete call on the given stream. */
type MakeCall = (stream: number) => Buffer;

const short: MakeCall = (stream) => call(stream, SAY, Buffer.from("honest"));

/** Calls with long field lists, no two of them equal. */
function longListCalls(): MakeCall {
  const fields = block(grpcFields(SAY, ["x-long", "l".repeat(LONG_LIST_BYTES)]));
  const end = message();
  return (stream) => {
    const own = block([["x-own", String(stream)]]);
    return Buffer.concat([
      headerFrames(stream, Buffer.concat([fields, own]), 0),
      data(stream, end, END_STREAM),
    ]);
  };
}

async function many(peer: RawPeer, count: number, make: MakeCall): Promise<void> {
  for (let left = count; left > 0; left -= BATCH) {
    const calls = Array.from({ length: Math.min(left, BATCH) }, () => make(peer.nextStream()));
    const last = peer.lastStream;
    await peer.send(...calls);
    const { reset } = await peer.outcome(last);
    assert.equal(reset, undefined, "an honest caller was not served");
    peer.frames.length = 0;
  }
}

function differences(now: Counts, before: Counts): Counts {
  const difference = (kind: (typeof COUNT_KINDS)[number]) => {
    const was: Readonly<Record<string, number>> = before[kind];
    return Object.fromEntries(
      Object.entries(now[kind])
        .map(([name, count]) => [name, count - (was[name] ?? 0)] as const)
        .filter(([, count]) => count > 0),
    );
  };
  const [faults, refused, codes, statuses] = COUNT_KINDS.map(difference);
  return {
    faults: faults ?? {},
    refused: refused ?? {},
    codes: codes ?? {},
    statuses: statuses ?? {},
  };
}

/** Starts a target process that ends with the test. `tls` are the options of honest callers where it requires TLS. */
export async function startTarget(
  test: TestContext,
  options: TargetOptions = {},
  tls?: ConnectionOptions,
): Promise<TargetServer> {
  const { grpc, ...rest } = options.settings ?? {};
  const settings = { grpc: { transport: "own" as const, ...grpc }, ...rest };
  const program = join(import.meta.dirname, "target-server.ts");
  const child = fork(program, [JSON.stringify({ ...options, settings })], { execArgv: [] });
  const ended = once(child, "exit");
  test.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const [address] = (await Promise.race([
    once(child, "message"),
    ended.then(() => assert.fail("the target server did not start")),
  ])) as [string];
  return new TargetServer(child, address, tls);
}
