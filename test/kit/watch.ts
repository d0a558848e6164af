// What an attack costs the server: CPU time and memory of a victim process, compared with what honest calls cost
// it in the same run, and whether honest callers go on being served meanwhile.

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import type { Http2Fault } from "#serve/settings.ts";
import {
  call,
  data,
  END_STREAM,
  grpcFields,
  grpcStatus,
  headers,
  message,
  type RawOptions,
  type RawPeer,
  rawPeer,
  settings,
  windowUpdate,
} from "./h2.ts";
import { block } from "./hpack-raw.ts";
import type { Look, VictimOptions } from "./victim.ts";

const HONEST_HEAD = block(grpcFields("/test.Victim/Say"));
const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
/** Honest callers take all that comes. */
const HONESTLY = { greeting: Buffer.concat([settings(), windowUpdate(0, 2 ** 30)]) };
/** Honest calls that are measured, behind as many that only make the code warm. */
const HONEST = 10_000;
const BATCH = 500;
/**
 * What an attack may cost beyond its frames, in honest calls: connections, and code that no honest call ever ran
 * and that is not compiled yet.
 */
const COLD = 40_000;
/** Noise of a machine that does other things too. */
const NOISE = 3;
/** What a call that comes alone, in parts, costs in calls that come together. */
const ALONE = 40;
/** So many calls the honest caller makes at once after each other; then it takes its time. */
const EAGER = 20;

/** What an attack may cost. */
export interface Bound {
  /** Frames (or requests, or connections) that it sends. */
  readonly frames: number;
  /** Each may cost the server as much CPU time as this many honest calls; 1 unless told. */
  readonly each?: number;
  /** Memory that is still held when the attack has been made and goes on; bytes. */
  readonly held?: number;
  /** Resident memory that it may take for a while, garbage included; bytes. */
  readonly peak?: number;
  /** Faults that the server must have counted, at least so often. */
  readonly faults?: Readonly<Partial<Record<Http2Fault, number>>>;
}

/** What an attack did cost, as differences. */
export interface Cost extends Omit<Look, "peak"> {
  readonly peak: number;
  /** Calls of the honest caller meanwhile. */
  readonly honest: number;
}

export class Victim {
  readonly address: string;
  readonly #process: ChildProcess;
  /** CPU time of an honest call; ms. */
  #call = 0;

  constructor(process: ChildProcess, address: string) {
    this.#process = process;
    this.address = address;
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

  peer(test: TestContext, options?: RawOptions): Promise<RawPeer> {
    return rawPeer(test, this.address, options);
  }

  /** Runs an attack beside an honest caller and holds it to its bound. */
  async under(test: TestContext, bound: Bound, attack: () => Promise<void>): Promise<Cost> {
    if (this.#call === 0) this.#call = await this.#measureHonest(test);
    // Handlers of an attack before may still be at work.
    let before = await this.look();
    for (; before.running > 0; before = await this.look()) await after(20);
    const beside = this.#honest(test);
    try {
      await beside.first;
      await attack();
    } finally {
      await beside.stop();
    }
    const now = await this.look();
    const cost: Cost = {
      ...now,
      cpu: now.cpu - before.cpu,
      held: now.held - before.held,
      peak: now.peak - before.peak,
      faults: difference(now.faults, before.faults),
      errors: now.errors.slice(before.errors.length),
      honest: beside.count,
    };
    this.#judge(test, bound, cost);
    return cost;
  }

  #judge(test: TestContext, bound: Bound, cost: Cost): void {
    const { frames, each = 1, held = 16 * MB, peak = 96 * MB, faults = {} } = bound;
    const worth = frames * each + cost.honest * ALONE + COLD;
    const most = worth * this.#call * NOISE;
    const show = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`;
    test.diagnostic(
      `CPU ${(cost.cpu / most).toFixed(2)} of its bound (${frames} frames, ${cost.honest} honest calls), ` +
        `held ${show(cost.held)} of ${show(held)}, peak ${show(cost.peak)} of ${show(peak)}, ` +
        `faults ${JSON.stringify(cost.faults)}`,
    );
    assert.ok(cost.cpu <= most, `took the CPU time of ${Math.round(cost.cpu / this.#call)} calls`);
    assert.ok(cost.held <= held, `holds ${show(cost.held)}, at most ${show(held)} may be`);
    assert.ok(cost.peak <= peak, `took ${show(cost.peak)}, at most ${show(peak)} may be`);
    for (const [fault, least] of Object.entries(faults)) {
      const seen = cost.faults[fault as Http2Fault] ?? 0;
      assert.ok(seen >= least, `${fault} was counted ${seen} times, at least ${least} were wanted`);
    }
    assert.deepEqual(cost.errors, [], "an attack is no error of ours");
  }

  /** CPU time of one honest call. */
  async #measureHonest(test: TestContext): Promise<number> {
    const peer = await this.peer(test, HONESTLY);
    await many(peer, HONEST);
    const before = await this.look();
    await many(peer, HONEST);
    const { cpu } = await this.look();
    peer.socket.destroy();
    return (cpu - before.cpu) / HONEST;
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
      const peer = await this.peer(test, HONESTLY);
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

/** One call; of every other one the message comes in two parts, so that the server has to keep the first. */
async function honest(peer: RawPeer, number: number): Promise<void> {
  const stream = peer.next();
  const parts = message(Buffer.from("honest"));
  const cut = number % 2 === 0 ? parts.length : 7;
  await peer.send(headers(stream, HONEST_HEAD), data(stream, parts.subarray(0, cut)));
  if (cut < parts.length) await peer.pong();
  await peer.send(data(stream, parts.subarray(cut), END_STREAM));
  const outcome = await peer.outcome(stream);
  const told = `${grpcStatus(outcome)} ${outcome.trailers["grpc-message"]} ${outcome.reset}`;
  assert.equal(grpcStatus(outcome), "0", `an honest caller was not served: ${told}`);
  peer.frames.length = 0;
}

async function many(peer: RawPeer, count: number): Promise<void> {
  for (let done = 0; done < count; done += BATCH) {
    const calls = Array.from({ length: BATCH }, () =>
      call(peer.next(), SAY, Buffer.from("honest")),
    );
    const last = peer.last;
    await peer.send(...calls);
    const { reset } = await peer.outcome(last);
    assert.equal(reset, undefined, "an honest caller was served");
    peer.frames.length = 0;
  }
}

function difference(after: Look["faults"], before: Look["faults"]): Look["faults"] {
  return Object.fromEntries(
    Object.entries(after)
      .map(([fault, count]) => [fault, count - (before[fault as Http2Fault] ?? 0)] as const)
      .filter(([, count]) => count > 0),
  );
}

/** A victim that ends with the test. */
export async function victim(test: TestContext, options: VictimOptions = {}): Promise<Victim> {
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
  return new Victim(child, address);
}
