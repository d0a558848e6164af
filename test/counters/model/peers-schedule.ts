// One random schedule of agents that count for each other and lease of each other, in virtual time: takes, tokens that
// come back, agents that join, stop, die, are frozen, or cut off, messages that are slow or get no reply, new numbers,
// and clocks that differ. The tokens that all agents admitted together are compared with the bound, and afterwards
// nothing may be lost for ever.

import { setImmediate as turn } from "node:timers/promises";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { PeerBuckets } from "#counters/peers/buckets.ts";
import type { RingMember } from "#counters/peers/membership/ring.ts";
import { OwnedLimiters } from "#counters/peers/owned-limiters.ts";
import { PeerGroup } from "#counters/peers/peer-group.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { answerCall, CALL_MS, ownerOf } from "../peers/network.ts";
import { Admissions, type Numbers } from "./admissions.ts";
import { MachineClock, World } from "./world.ts";

export interface PeersOutcome {
  readonly asked: number;
  readonly local: number;
  readonly admitted: number;
  /** Losses that may cost a capacity each. */
  readonly losses: number;
  /** Description of the fault that was found; empty without one. */
  readonly fault: string;
}

const NAME = { policyName: "policy", name: "limiter" };
const DAY_MS = 86_400_000;
const TIMEOUT_MS = 100;
/** Longest way of a message, ms: the usual one and a slow one. */
const WAY_MS = 5;
const SLOW_MS = 60;
/** Time after a change of members in which the next change may meet a hand-over that is not over, ms. */
const UNSETTLED_MS = 2_500;
/** Clocks differ by so much at most. */
const SKEW = 0.02;
/** Longest time until an agent hears of new members or numbers, ms. */
const HEARD_MS = 50;
/** Takes of each agent in a storm. */
const STORM = 60;

interface Agent {
  readonly member: RingMember;
  readonly clock: MachineClock;
  readonly group: PeerGroup;
  readonly owned: OwnedLimiters;
  readonly leases: LeaseHolder;
  readonly buckets: PeerBuckets;
  /** Its numbers now. */
  params: BucketParams;
  /** Nothing passes to or from it. */
  cut: boolean;
  leaving: boolean;
}

/** A world in which the effects of an event that need no time have happened before the next event. */
class SettlingWorld extends World {
  override at(time: number, run: () => void | Promise<void>): void {
    super.at(time, async () => {
      await run();
      await turn();
    });
  }
}

class PeersSchedule {
  readonly #world: SettlingWorld;
  readonly #agents: Agent[] = [];
  readonly #lengthMs: number;
  readonly #durationMs: number;
  readonly #leased: boolean;
  readonly #copies: number;
  #slow: number;
  #lost: number;
  #params: BucketParams;
  #changed = false;
  #mostAmount: number;
  /** The longest time for which a process was stopped, ms. */
  #stoppedMs = 0;
  readonly #keys: readonly (string | undefined)[];
  readonly #admissions = new Map<string | undefined, Admissions>();
  /** When tokens came back. */
  readonly #returned = new Map<string | undefined, number[]>();
  readonly #losses = new Map<string | undefined, number>();
  /** As the store has them. */
  #list: readonly RingMember[] = [];
  #changedAt = Number.NEGATIVE_INFINITY;
  #started = 0;
  #asked = 0;
  #local = 0;
  #unheard = 0;

  constructor(seed: number) {
    const world = new SettlingWorld(seededChance(seed));
    this.#world = world;
    this.#leased = world.chance() < 0.85;
    this.#copies = world.chance() < 0.3 ? 2 : 1;
    this.#durationMs = world.pick([200, 1_000, 3_000]);
    this.#lengthMs = world.pick([500, 2_000, 6_000]);
    const faulty = world.chance() < 0.5;
    this.#slow = faulty ? world.pick([0, 0.05, 0.3]) : 0;
    this.#lost = faulty ? world.pick([0, 0.02, 0.1]) : 0;
    this.#keys = world.pick([["k"], [undefined], ["a", "b"]]);
    this.#params = {
      capacity: world.pick([5, 40, 500]),
      amount: world.pick([0, 0, 20, 300]),
      intervalMs: world.pick([1_000, 5_000]),
      continuous: world.chance() < 0.7,
      lazySyncs: world.chance() < 0.15 ? world.pick([1, 4, 10]) : 0,
      delayed: false,
      maxIdleMs: 0,
    };
    this.#mostAmount = this.#params.amount;
    for (const key of this.#keys) {
      this.#admissions.set(key, new Admissions(numbersOf(this.#params)));
      this.#returned.set(key, []);
    }
  }

  async run(): Promise<PeersOutcome> {
    const world = this.#world;
    const count = 1 + Math.floor(world.chance() * 4);
    for (let n = 0; n < count; n++) this.#join();
    await world.until(100);
    // All have joined before anything is counted.
    this.#changedAt = Number.NEGATIVE_INFINITY;
    for (const agent of this.#agents) this.#load(agent);
    for (let n = Math.floor(world.between(0, 5)); n > 0; n--) {
      world.at(world.between(100, this.#lengthMs), () => this.#disturb());
    }
    await world.until(this.#lengthMs);
    const fault = this.#broken() || (await this.#leak());
    for (const { group, owned } of this.#agents) {
      group.close();
      owned.close();
    }
    const admitted = [...this.#admissions.values()].reduce((sum, { total }) => sum + total, 0);
    const losses = [...this.#losses.values()].reduce((sum, each) => sum + each, 0);
    const setting = {
      agents: this.#started,
      leased: this.#leased,
      copies: this.#copies,
      losses,
      durationMs: this.#durationMs,
      lengthMs: this.#lengthMs,
      params: this.#params,
      slow: this.#slow,
      lost: this.#lost,
    };
    return {
      asked: this.#asked,
      local: this.#local,
      admitted,
      losses,
      fault: fault === "" ? "" : `${fault}\n${JSON.stringify(setting)}`,
    };
  }

  #join(): Agent {
    const world = this.#world;
    const id = `process-${++this.#started}`;
    const speed = world.between(1 - SKEW, 1 + SKEW);
    const clock = new MachineClock(world, world.between(0, DAY_MS), speed);
    const address = `agent-${Math.floor(world.chance() * 1e9)}:1`;
    const member: RingMember = { name: address, id, address, probe: undefined };
    const owned = new OwnedLimiters({ clock, observer: NO_OBSERVER, maxKeys: 1_000 }, [1, 2]);
    const leases = new LeaseHolder(this.#started, clock, {
      enabled: this.#leased,
      duration: this.#durationMs,
      max_keys: 100,
    });
    const group = new PeerGroup({
      id,
      owned,
      clock,
      log: memoryLog(),
      timeoutMs: TIMEOUT_MS,
      probeMs: 200,
      most: 1_000,
      replicas: this.#copies,
      synchronous: this.#copies > 1,
      changed: () => undefined,
      connect: (to) => ({
        call: (method, message) => this.#call(agent, to.id, method, message),
        close: () => undefined,
      }),
    });
    // Until it knows who is there.
    group.ready = false;
    const buckets = new PeerBuckets(group, leases, NAME);
    buckets.adopt(this.#params);
    const agent: Agent = {
      member,
      clock,
      group,
      owned,
      leases,
      buckets,
      params: this.#params,
      cut: false,
      leaving: false,
    };
    this.#agents.push(agent);
    this.#setList([...this.#list, member]);
    return agent;
  }

  #setList(list: readonly RingMember[]): void {
    const world = this.#world;
    this.#list = list;
    this.#changedAt = world.now;
    for (const { clock, group } of this.#agents) {
      clock.whenRunning(world.now + world.between(0, HEARD_MS), () => {
        group.members.set(this.#list);
        group.ready = true;
      });
    }
  }

  /** A message and its reply, of which each may be slow or lost. */
  #call(from: Agent, id: string, method: string, message: Uint8Array): Promise<Uint8Array> {
    const world = this.#world;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    from.clock.alarm(CALL_MS, () => reject(new Fault("DEADLINE_EXCEEDED", "no reply")));
    const lose = () => {
      const fail = () => reject(new Fault("UNAVAILABLE", "the connection is lost"));
      from.clock.whenRunning(world.now + world.between(0, TIMEOUT_MS), fail);
    };
    const carry = (arrive: () => void) => {
      const to = this.#agents.find(({ member }) => member.id === id);
      if (to === undefined || from.cut || to.cut || world.chance() < this.#lost) lose();
      else world.at(world.now + this.#way(), arrive);
    };
    carry(() => {
      const to = this.#agents.find(({ member }) => member.id === id);
      if (to === undefined) return lose();
      const handle = async () => {
        const reply = await answerCall(to.group, method, message);
        carry(() => from.clock.whenRunning(world.now, () => resolve(reply)));
      };
      to.clock.whenRunning(world.now, () => void handle());
    });
    return promise;
  }

  #way(): number {
    const world = this.#world;
    return world.between(0, world.chance() < this.#slow ? SLOW_MS : WAY_MS);
  }

  #load(agent: Agent): void {
    const world = this.#world;
    const gapMs = world.pick([2, 10, 50]);
    const next = () => {
      if (world.now > this.#lengthMs) return;
      for (let n = world.chance() < 0.1 ? 10 : 1; n > 0; n--) this.#take(agent);
      const pause = world.chance() < 0.01 ? this.#durationMs * world.between(0.5, 2) : 0;
      agent.clock.whenRunning(world.now + pause + world.between(0, 2 * gapMs), next);
    };
    next();
  }

  #take(agent: Agent): void {
    const world = this.#world;
    const { clock, buckets, leases, group } = agent;
    const key = world.pick(this.#keys);
    const admissions = this.#admissions.get(key);
    this.#asked++;
    const settle = (answer: EngineAnswer, countedAt: number) => {
      if (answer.outcome !== "granted") return;
      admissions?.add(countedAt, 1);
      if (world.chance() >= 0.02) return;
      const { id } = answer;
      clock.whenRunning(world.now + world.between(0, this.#durationMs), () => {
        if (!buckets.giveBack(key, 1, id, agent.params)) return;
        admissions?.add(world.now, -1);
        this.#returned.get(key)?.push(world.now);
      });
    };
    const { asked, own } = leases.counts;
    const now = world.now;
    const answer = buckets.take(key, 1, agent.params, clock.now());
    if (leases.counts.asked === asked || group.isOnlyMember) this.#local++;
    if (!(answer instanceof Pending)) settle(answer, now);
    else {
      // A flow of a key that this agent counts itself was counted at once, however long its copies take.
      const here = leases.counts.own > own;
      const later = (settled: EngineAnswer) => {
        // A process that was killed answers nobody.
        if (clock.dead && !agent.leaving) return;
        settle(settled, here ? now : world.now);
      };
      answer.whenSettled(later, (thrown) => {
        throw thrown;
      });
    }
  }

  #disturb(): void {
    const world = this.#world;
    const staying = this.#agents.filter(({ leaving }) => !leaving);
    const agent = world.pick(staying);
    const draw = world.chance();
    if (draw < 0.22) {
      if (this.#unequal() || this.#unnoticed()) this.#lose(() => true);
      this.#load(this.#join());
    } else if (draw < 0.44 && staying.length > 1) void this.#leave(agent);
    else if (draw < 0.6 && staying.length > 1) this.#crash(agent);
    else if (draw < 0.72) {
      agent.cut = true;
      world.at(world.now + world.between(10, 2 * this.#durationMs), () => {
        agent.cut = false;
      });
      // Messages of a hand-over during the cut may come too late.
      this.#unsettle();
    } else if (draw < 0.84) {
      const ms = world.between(10, 2 * this.#durationMs);
      this.#stoppedMs = Math.max(this.#stoppedMs, ms);
      agent.clock.stoppedUntil = world.now + ms;
      this.#unsettle();
    } else if (draw < 0.92) this.#change();
    if (world.chance() < 0.5) {
      world.at(world.now + world.between(0, this.#durationMs), () => this.#storm());
    }
  }

  /** All agents want more than there is at one time. */
  #storm(): void {
    for (const agent of this.#agents) {
      agent.clock.whenRunning(this.#world.now, () => {
        for (let n = 0; n < STORM; n++) this.#take(agent);
      });
    }
  }

  /** A new plan with other numbers, once, of which each agent hears at its own time. What was leased may be spent: no less capacity. */
  #change(): void {
    if (this.#changed) return;
    this.#changed = true;
    const world = this.#world;
    const before = this.#params;
    const params = {
      ...before,
      capacity: world.pick([5, 40, 500].filter((next) => next >= before.capacity)),
      amount: before.continuous ? world.pick([0, 20, 300]) : before.amount,
    };
    this.#params = params;
    this.#mostAmount = Math.max(before.amount, params.amount);
    const count = (amount: number) => {
      const numbers = numbersOf({ ...params, amount });
      for (const admissions of this.#admissions.values()) admissions.change(world.now, numbers);
    };
    // Whoever counts may have heard of them, or not.
    count(this.#mostAmount);
    let unheard = this.#agents.length;
    for (const agent of this.#agents) {
      agent.clock.whenRunning(world.now + world.between(0, HEARD_MS), () => {
        agent.params = params;
        agent.buckets.adopt(params);
        unheard--;
        if (unheard === 0) count(params.amount);
      });
    }
  }

  /**
   * True if some have not heard of the last change, or wait for what is theirs. Whoever hears of the next one first hands
   * over to its newest member, while another that has not heard of it counts the same key.
   */
  #unequal(): boolean {
    const ids = (members: readonly RingMember[]) =>
      members
        .map(({ id }) => id)
        .toSorted()
        .join();
    const all = ids(this.#list);
    return this.#agents.some(({ group }) => group.joining || ids(group.ring.members) !== all);
  }

  /** True if one is lost that the others still count as a member: whoever has copies of its keys gives them to nobody. */
  #unnoticed(): boolean {
    const isThere = (id: string) => this.#agents.some(({ member }) => member.id === id);
    return this.#copies > 1 && this.#list.some(({ id }) => !isThere(id));
  }

  /** While members change, others may not be able to hand over in time. */
  #unsettle(): void {
    if (this.#world.now < this.#changedAt + UNSETTLED_MS) this.#lose(() => true);
    this.#changedAt = this.#world.now;
  }

  async #leave(agent: Agent): Promise<void> {
    this.#unsettle();
    agent.leaving = true;
    await agent.group.leave();
    this.#setList(this.#list.filter(({ id }) => id !== agent.member.id));
    this.#end(agent);
  }

  /** Its record goes with its lease in the store. */
  #crash(agent: Agent): void {
    const world = this.#world;
    this.#unsettle();
    // With a copy that is written before each answer, nothing is lost; one that does not arrive is not waited for.
    const { copiesLost } = agent.group.links;
    if (this.#copies === 1 || copiesLost > 0) this.#lose((key) => this.#counts(agent, key));
    this.#end(agent);
    world.at(world.now + world.between(0, 1_000), () => {
      this.#setList(this.#list.filter(({ id }) => id !== agent.member.id));
    });
  }

  #end(agent: Agent): void {
    agent.clock.dead = true;
    agent.cut = true;
    agent.group.close();
    agent.owned.close();
    this.#unheard += agent.group.counts.unheard;
    const at = this.#agents.indexOf(agent);
    if (at >= 0) this.#agents.splice(at, 1);
  }

  /** True if anybody, the agent included, thinks that it counts the key. */
  #counts({ member }: Agent, key: string | undefined): boolean {
    return this.#agents.some(({ group }) => ownerOf(group, key) === member.id);
  }

  #lose(concerns: (key: string | undefined) => boolean): void {
    for (const key of this.#keys) {
      if (concerns(key)) this.#losses.set(key, (this.#losses.get(key) ?? 0) + 1);
    }
  }

  #broken(): string {
    const { capacity, intervalMs, continuous, lazySyncs } = this.#params;
    const amount = this.#mostAmount;
    const unheard = this.#agents.reduce((sum, { group }) => sum + group.counts.unheard, 0);
    // A flow hears of its grant after it was counted, and after a copy was written or is known to be lost.
    const waits = this.#copies > 1 && (this.#lost > 0 || this.#started > 1);
    const messageMs = (this.#slow > 0 ? SLOW_MS : WAY_MS) + 1;
    const wayMs = waits ? TIMEOUT_MS : messageMs;
    // Agents may admit one capacity each on credit.
    const credit = lazySyncs > 0 ? this.#started * capacity : 0;
    for (const [key, admissions] of this.#admissions) {
      const losses = (this.#losses.get(key) ?? 0) + this.#unheard + unheard;
      const filled = (Math.min(wayMs, TIMEOUT_MS) * ((1 + SKEW) * amount)) / intervalMs;
      const late = continuous ? filled : amount;
      // Tokens that come back are counted when they are sent, and may find a bucket that is not full any more. Where nothing
      // fills it, that makes no difference.
      const returning =
        amount > 0 ? mostWithin(messageMs + this.#stoppedMs, this.#returned.get(key)) : 0;
      const more = losses * capacity + credit + returning + late;
      const excess = admissions.excess();
      if (excess > more + 1e-6) {
        return `key ${key}: ${excess} tokens above capacity and refill, ${more} allowed`;
      }
    }
    return "";
  }

  /** Once everything is quiet and all leases are over, each bucket is full and all of it is for whoever asks. */
  async #leak(): Promise<string> {
    const world = this.#world;
    const { capacity, amount, intervalMs, lazySyncs } = this.#params;
    await world.until(this.#lengthMs + 4 * this.#durationMs + 10_000);
    for (const agent of this.#agents) agent.cut = false;
    // From here on, tokens that a lost or late reply granted would be missing.
    this.#lost = 0;
    this.#slow = 0;
    if (amount === 0) return "";
    const owed = lazySyncs > 0 ? this.#started * capacity : capacity;
    const filledMs = 2 * Math.ceil((capacity + owed) / amount + 1) * intervalMs;
    await world.until(world.now + filledMs + 10_000);
    for (const key of this.#keys) {
      const { buckets, clock } = world.pick(this.#agents);
      for (let tries = 0; ; tries++) {
        let answer: EngineAnswer | undefined;
        const asked = buckets.take(key, capacity, this.#params, clock.now());
        if (asked instanceof Pending) {
          asked.whenSettled(
            (settled) => {
              answer = { ...settled };
            },
            () => undefined,
          );
        } else answer = { ...asked };
        await turn();
        await world.until(world.now + 2 * TIMEOUT_MS);
        if (answer?.outcome === "granted") break;
        // A lost message opens a breaker, which needs a probe.
        if (answer?.outcome === "undecided" && tries < 50) continue;
        return `key ${key}: ${answer?.outcome}, ${answer?.remaining} left of ${capacity}`;
      }
    }
    const followed = this.#agents.reduce((sum, { leases }) => sum + leases.counts.keys, 0);
    return followed > this.#keys.length ? `${followed} keys are followed for ever` : "";
  }
}

/** Clocks that are fast fill more, or sooner. */
function numbersOf({ capacity, amount, intervalMs, continuous }: BucketParams): Numbers {
  return continuous
    ? { capacity, amount: amount * (1 + SKEW), intervalMs, continuous }
    : { capacity, amount, intervalMs: intervalMs / (1 + SKEW), continuous };
}

/** The greatest number of times within any window of so many milliseconds; the times are in order. */
function mostWithin(ms: number, times: readonly number[] = []): number {
  let most = 0;
  let first = 0;
  for (const [at, time] of times.entries()) {
    while ((times[first] ?? time) < time - ms) first++;
    most = Math.max(most, at - first + 1);
  }
  return most;
}

/** Runs the schedule of a seed. */
export function runPeersSchedule(seed: number): Promise<PeersOutcome> {
  return new PeersSchedule(seed).run();
}
