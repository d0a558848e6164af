// One random schedule of agents that share buckets: takes, returns, crashes, partitions, new numbers, and clocks that
// differ. What all agents admitted together is compared with the bound of the mode, and afterwards nothing may be lost
// for ever.

import { seededChance } from "#base/chance.ts";
import {
  type BucketReply,
  type BucketRequest,
  LONGEST_LEASE_MS,
} from "#counters/leases/bucket-owner.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { LeasedBuckets } from "#counters/leases/leased-buckets.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { Admissions, type Numbers } from "./admissions.ts";
import { type Answer, type Faults, Line, MachineClock, World } from "./world.ts";

export type Mode = "exact" | "leased" | "lazy";

/** The owner that agents ask. */
export interface Owner {
  /** Forgets buckets that are full by the numbers of then, whatever the numbers are later. */
  readonly forgetsFull?: boolean;
  readonly ask: (
    value: string | undefined,
    request: Parameters<Answer>[1],
    params: BucketParams,
    now: number,
  ) => ReturnType<Answer>;
  adopt(params: BucketParams, now: number): void;
}

export interface Outcome {
  readonly mode: Mode;
  readonly agents: number;
  readonly asked: number;
  readonly admitted: number;
  /** Flows decided without asking. */
  readonly local: number;
  /** Description of the fault that was found; empty without one. */
  readonly fault: string;
}

const NOTHING = { runs: [], back: 0, overdraft: "refuse", lease: undefined } as const;
const DAY_MS = 86_400_000;
/** Takes of each agent in a storm. */
const STORM = 60;
const MODES = ["exact", "leased", "lazy"] as const;

interface Agent {
  readonly clock: MachineClock;
  readonly line: Line;
  readonly leases: LeaseHolder;
  readonly buckets: LeasedBuckets;
  /** Tokens of flows that got their answer while a reply was delivered. */
  delivered: number;
}

class Schedule {
  readonly #world: World;
  readonly #owner: Owner;
  readonly #faults: Faults;
  readonly #mode: Mode;
  /**
   * Capacities are lowered. What was taken before such a change and comes back after it may be more than the bucket would
   * have kept, so nothing comes back then.
   */
  readonly #cuts: boolean;
  readonly #durationMs: number;
  readonly #lengthMs: number;
  readonly #keys: readonly (string | undefined)[];
  readonly #sizes: readonly number[];
  readonly #admissions = new Map<string | undefined, Admissions>();
  readonly #agents: Agent[] = [];
  #params: BucketParams;
  /** Agents ever started. */
  #started = 0;
  /** The largest capacity. */
  #most = 0;
  /** Tokens that a owner which forgets full buckets may admit because the numbers have changed. */
  #forgiven = 0;
  #asked = 0;
  #local = 0;

  constructor(seed: number, owner: (world: World) => Owner) {
    const world = new World(seededChance(seed));
    this.#world = world;
    this.#owner = owner(world);
    this.#mode = world.pick(MODES);
    this.#cuts = world.chance() < 0.3;
    this.#durationMs = world.pick([200, 1_000, 3_000]);
    this.#lengthMs = world.pick([500, 3_000, 12_000]);
    const faulty = world.chance() < 0.7;
    this.#faults = {
      lost: faulty ? world.pick([0, 0.02, 0.2]) : 0,
      repeated: faulty ? world.pick([0, 0.1, 0.5]) : 0,
      slow: faulty ? world.pick([0, 0.05, 0.3]) : 0,
    };
    this.#keys = world.pick([["k"], [undefined], ["a", "b", "c"]]);
    this.#sizes = world.pick([[1], [1], [1, 2, 5], [0.5, 0.25, 1.75], [1, 1, 1, 20]]);
    this.#params = {
      capacity: world.pick([0, 1, 5, 40, 500]),
      amount: world.pick([0, 1, 20, 300]),
      intervalMs: world.pick([100, 1_000, 5_000]),
      continuous: world.chance() < 0.7,
      delayed: world.chance() < 0.2,
      maxIdleMs: 0,
      lazySyncs: this.#mode === "lazy" ? world.pick([1, 4, 10]) : 0,
    };
    this.#owner.adopt(this.#params, world.now);
    for (const key of this.#keys) this.#admissions.set(key, new Admissions(this.#numbers()));
  }

  async run(): Promise<Outcome> {
    const world = this.#world;
    const agents = 1 + Math.floor(world.chance() * 5);
    for (let n = 0; n < agents; n++) this.#start();
    for (const agent of [...this.#agents]) this.#load(agent);
    const events = Math.floor(world.between(0, 6));
    for (let n = 0; n < events; n++) {
      world.at(world.between(0, this.#lengthMs), () => this.#disturb());
    }
    await world.until(this.#lengthMs);
    const fault = this.#broken() || (await this.#leak());
    const admitted = [...this.#admissions.values()].reduce((sum, { total }) => sum + total, 0);
    const { agents: all } = { agents: this.#started };
    return {
      mode: this.#mode,
      agents: all,
      asked: this.#asked,
      admitted,
      local: this.#local,
      fault: fault === "" ? "" : `${fault}\n${this.#setting()}`,
    };
  }

  #start(): Agent {
    const world = this.#world;
    const clock = new MachineClock(
      world,
      world.between(-DAY_MS, DAY_MS),
      world.between(0.98, 1.02),
    );
    const line = new Line(
      world,
      clock,
      this.#faults,
      (value, request) => this.#answer(value, request),
      (value, request, reply, deliver) =>
        this.#deliver(agent, value, grantedBy(request, reply), deliver),
    );
    const enabled = this.#mode === "leased";
    const max_keys = world.pick([2, 100]);
    const settings = { enabled, duration: this.#durationMs, max_keys };
    const leases = new LeaseHolder(++this.#started, clock, settings);
    const buckets = new LeasedBuckets(leases, line);
    buckets.adopt(this.#params);
    const agent = { clock, line, leases, buckets, delivered: 0 };
    this.#agents.push(agent);
    this.#credit();
    return agent;
  }

  /** Flows are admitted at the moment when the owner grants them; the reply is on its way meanwhile. */
  async #answer(value: string | undefined, request: BucketRequest): Promise<BucketReply> {
    const { now } = this.#world;
    const heard = this.#cuts ? { ...request, back: 0 } : request;
    const asked = this.#owner.ask(value, heard, this.#params, now);
    const reply = asked instanceof Promise ? await asked : asked;
    const admissions = this.#admissions.get(value);
    admissions?.add(now, grantedBy(request, reply));
    // Tokens are back when the owner has them: until then, others may use up a bucket that was full.
    admissions?.add(now, -heard.back);
    return reply;
  }

  /**
   * While a reply is delivered, flows pass that it granted, which were admitted when the owner said so, and others that
   * waited for tokens which the agent has leased. These are admitted now, like all flows on leased tokens: some of the
   * tokens may have come back while the reply was on its way, and were still spent when the owner made it.
   */
  #deliver(agent: Agent, value: string | undefined, granted: number, deliver: () => void): void {
    const { line } = agent;
    const { returned } = line;
    agent.delivered = 0;
    deliver();
    const unwanted = line.returned - returned;
    const leased = agent.delivered - (granted - unwanted);
    this.#admissions.get(value)?.add(this.#world.now, leased);
  }

  /** Takes that come evenly, in bursts, or stop for a while. */
  #load(agent: Agent): void {
    const world = this.#world;
    const gapMs = world.pick([2, 10, 50, 300]);
    const bursts = world.chance() < 0.3;
    const next = () => {
      if (world.now > this.#lengthMs) return;
      const times = bursts ? 1 + Math.floor(world.chance() * 10) : 1;
      for (let n = 0; n < times; n++) this.#take(agent);
      const pause = world.chance() < 0.02 ? this.#durationMs * world.between(0.5, 2) : 0;
      world.at(world.now + pause + world.between(0, 2 * gapMs * (bursts ? 5 : 1)), resume);
    };
    const resume = () => agent.clock.whenRunning(world.now, next);
    resume();
  }

  #take(agent: Agent): void {
    const { clock, line, buckets, leases } = agent;
    const world = this.#world;
    const key = world.pick(this.#keys);
    const want = world.pick(this.#sizes);
    const admissions = this.#admissions.get(key);
    this.#asked++;
    const settle = (answer: EngineAnswer) => {
      if (answer.outcome !== "granted" || admissions === undefined) return;
      if (!line.delivering) admissions.add(world.now, want);
      else agent.delivered += want;
      if (world.chance() >= 0.1) return;
      const undone =
        world.now + (world.chance() < 0.5 ? 0 : world.between(0, this.#durationMs * 2));
      clock.whenRunning(undone, () => {
        const before = line.returned;
        buckets.giveBack(key, want, "", this.#params);
        const kept = want - (line.returned - before);
        admissions.add(world.now, -kept);
      });
    };
    const before = leases.counts.granted + leases.counts.refused;
    const answer = buckets.take(key, want, this.#params, clock.now());
    this.#local += leases.counts.granted + leases.counts.refused - before;
    if (!(answer instanceof Pending)) settle(answer);
    else {
      answer.whenSettled(settle, (thrown) => {
        throw thrown;
      });
      if (world.chance() < 0.05) world.at(world.now + world.between(0, 5), () => answer.cancel());
    }
  }

  #disturb(): void | Promise<void> {
    const world = this.#world;
    const agent = world.pick(this.#agents);
    const draw = world.chance();
    if (draw < 0.35) this.#crash(agent);
    else if (draw < 0.65) {
      agent.line.cut = true;
      const ms = world.between(10, 2 * this.#durationMs);
      world.at(world.now + ms, () => {
        agent.line.cut = false;
      });
    } else if (draw < 0.75) {
      agent.clock.stoppedUntil = world.now + world.between(10, 2 * this.#durationMs);
      world.at(agent.clock.stoppedUntil, () => this.#storm());
    } else if (draw < 0.8) {
      // The limiter is in no plan any more, and comes back.
      agent.buckets.close();
    } else return this.#change();
  }

  /** All agents want more than there is at one time. */
  #storm(): void {
    for (const agent of this.#agents) {
      const { clock } = agent;
      clock.whenRunning(this.#world.now, () => {
        for (let n = 0; n < STORM; n++) this.#take(agent);
      });
    }
  }

  #crash(agent: Agent): void {
    agent.clock.dead = true;
    agent.line.cut = true;
    this.#agents.splice(this.#agents.indexOf(agent), 1);
    this.#load(this.#start());
  }

  /** New numbers, at all agents at once. The interval stays: a change of it moves the steps of a fill. */
  async #change(): Promise<void> {
    const world = this.#world;
    const steady = !this.#params.continuous;
    // A delay that has begun lasts as long as the numbers said then.
    if (this.#params.delayed) return;
    // Buckets are filled and cut when they are used: by the old numbers until now, and by the new ones from now on.
    const use = async () => {
      for (const key of this.#keys) await this.#owner.ask(key, NOTHING, this.#params, world.now);
    };
    await use();
    const capacities = [1, 5, 40, 500];
    const { capacity } = this.#params;
    this.#params = {
      ...this.#params,
      capacity: world.pick(this.#cuts ? capacities : capacities.filter((next) => next >= capacity)),
      amount: steady ? this.#params.amount : world.pick([0, 1, 20, 300]),
    };
    if (this.#owner.forgetsFull) this.#forgiven += Math.max(capacity, this.#params.capacity);
    this.#owner.adopt(this.#params, world.now);
    await use();
    for (const { buckets } of this.#agents) buckets.adopt(this.#params);
    for (const admissions of this.#admissions.values()) {
      admissions.change(world.now, this.#numbers());
    }
    this.#credit();
  }

  #numbers(): Numbers {
    const { capacity, amount, intervalMs, continuous } = this.#params;
    return { capacity, amount, intervalMs, continuous };
  }

  /** With lazy synchronisation, each agent may have admitted one capacity that was not counted when it should. */
  #credit(): void {
    this.#most = Math.max(this.#most, this.#params.capacity);
    const late = this.#mode === "lazy" ? this.#started * this.#most : 0;
    for (const admissions of this.#admissions.values()) admissions.credit(late + this.#forgiven);
  }

  #broken(): string {
    for (const [key, admissions] of this.#admissions) {
      const excess = admissions.excess();
      if (excess > 1e-6) return `key ${key}: ${excess} tokens above the bound`;
    }
    return "";
  }

  /** Once everything is quiet and all leases are over, each bucket is full and all of it is for whoever asks. */
  async #leak(): Promise<string> {
    const world = this.#world;
    for (const { line } of this.#agents) line.cut = false;
    const { capacity, amount, intervalMs } = this.#params;
    const owed = this.#mode === "lazy" ? this.#started * 500 : 0;
    const intervals = amount > 0 ? Math.ceil((capacity + owed) / amount) + 1 : 0;
    // A delayed fill begins after the time that filling takes.
    await world.until(this.#lengthMs + LONGEST_LEASE_MS + 2 * intervals * intervalMs);
    if (amount === 0) return "";
    for (const key of this.#keys) {
      const request = { ...NOTHING, runs: [{ want: capacity, times: 1 }] };
      const { tokens, granted } = await this.#owner.ask(key, request, this.#params, world.now);
      if (granted[0] !== 1) return `key ${key}: ${tokens} left of ${capacity} that should be there`;
    }
    const followed = this.#agents.reduce((sum, { leases }) => sum + leases.counts.keys, 0);
    return followed === 0 ? "" : `${followed} keys are followed for ever`;
  }

  #setting(): string {
    return JSON.stringify({
      mode: this.#mode,
      durationMs: this.#durationMs,
      lengthMs: this.#lengthMs,
      faults: this.#faults,
      sizes: this.#sizes,
      params: this.#params,
    });
  }
}

/** Tokens for which the owner admitted flows. What an agent reports was admitted before. */
function grantedBy({ runs, overdraft }: BucketRequest, { granted }: BucketReply): number {
  if (overdraft === "owe") return 0;
  return runs.reduce((sum, { want }, at) => sum + want * (granted[at] ?? 0), 0);
}

/** Runs the schedule of a seed. */
export function runSchedule(seed: number, owner: (world: World) => Owner): Promise<Outcome> {
  return new Schedule(seed, owner).run();
}
