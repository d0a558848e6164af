// Virtual time and a network that delays, loses, reorders and repeats messages, for many agents and one owner. Everything
// is drawn from one seed, so a schedule can be run again.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { BucketOwner, BucketReply, BucketRequest } from "#counters/leases/bucket-owner.ts";

/** Answers one request that has arrived. */
export type Answer = (
  value: string | undefined,
  request: BucketRequest,
) => BucketReply | Promise<BucketReply>;

interface Event {
  readonly at: number;
  readonly order: number;
  readonly run: () => void | Promise<void>;
}

export class World {
  now = 0;
  readonly chance: Chance;
  /** A heap by time, and by order of planning at one time. */
  readonly #events: Event[] = [];
  #order = 0;

  constructor(chance: Chance) {
    this.chance = chance;
  }

  /** A number between two, drawn. */
  between(least: number, most: number): number {
    return least + (most - least) * this.chance();
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.chance() * values.length)] as T;
  }

  at(time: number, run: Event["run"]): void {
    const events = this.#events;
    let place = events.push({ at: Math.max(time, this.now), order: this.#order++, run }) - 1;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!this.#before(place, above)) break;
      this.#swap(place, above);
      place = above;
    }
  }

  /** Runs what is planned until a time. */
  async until(time: number): Promise<void> {
    for (
      let next = this.#events[0];
      next !== undefined && next.at <= time;
      next = this.#events[0]
    ) {
      this.#drop();
      this.now = next.at;
      const done = next.run();
      if (done !== undefined) await done;
    }
    this.now = time;
  }

  #drop(): void {
    const events = this.#events;
    const last = events.pop();
    if (last === undefined || events.length === 0) return;
    events[0] = last;
    let place = 0;
    for (;;) {
      let least = place;
      for (const below of [2 * place + 1, 2 * place + 2])
        if (below < events.length && this.#before(below, least)) least = below;
      if (least === place) return;
      this.#swap(place, least);
      place = least;
    }
  }

  #before(one: number, other: number): boolean {
    const [a, b] = [this.#events[one], this.#events[other]];
    if (a === undefined || b === undefined) return false;
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  #swap(one: number, other: number): void {
    const events = this.#events;
    [events[one], events[other]] = [events[other] as Event, events[one] as Event];
  }
}

/** The monotonic clock of one machine: it starts anywhere, and runs a little too fast or too slowly. */
export class MachineClock implements Clock {
  readonly #world: World;
  readonly #start: number;
  readonly #speed: number;
  /** A dead machine's alarms do not ring. */
  dead = false;
  /** The process is stopped until then: alarms ring and messages are read afterwards. */
  stoppedUntil = 0;

  constructor(world: World, start: number, speed: number) {
    this.#world = world;
    this.#start = start;
    this.#speed = speed;
  }

  /** Runs at a time, or once the process goes on after it. */
  whenRunning(time: number, run: () => void): void {
    this.#world.at(time, () => {
      if (this.dead) return;
      if (this.stoppedUntil > this.#world.now) this.whenRunning(this.stoppedUntil, run);
      else run();
    });
  }

  readonly now = () => this.#start + this.#world.now * this.#speed;
  readonly wall = () => this.now();
  readonly wallOf = (now: number) => now;

  alarm(ms: number, ring: () => void): () => void {
    let on = true;
    this.whenRunning(this.#world.now + ms / this.#speed, () => {
      if (on) ring();
    });
    return () => {
      on = false;
    };
  }
}

/** Probabilities of faults of messages, from 0 to 1. */
export interface Faults {
  readonly lost: number;
  readonly repeated: number;
  readonly slow: number;
}

/** Called when an agent gets a reply; it has to call `deliver`. */
export type Delivered = (
  value: string | undefined,
  request: BucketRequest,
  reply: BucketReply,
  deliver: () => void,
) => void;

/** Longest way of a message, ms: the usual one and a slow one. */
const WAY_MS = 5;
const SLOW_MS = 2_500;
/** Time that an agent waits for a reply, ms. */
const TIMEOUT_MS = 100;

/** One agent's way to the owner. */
export class Line implements BucketOwner {
  readonly #world: World;
  readonly #clock: MachineClock;
  readonly #faults: Faults;
  readonly #answer: Answer;
  readonly #delivered: Delivered;
  /** Nothing passes: a partition. */
  cut = false;
  /** A reply is being delivered. */
  delivering = false;
  /** Tokens that the agent gave back to the owner. */
  returned = 0;

  constructor(
    world: World,
    clock: MachineClock,
    faults: Faults,
    answer: Answer,
    delivered: Delivered,
  ) {
    this.#world = world;
    this.#clock = clock;
    this.#faults = faults;
    this.#answer = answer;
    this.#delivered = delivered;
  }

  ask(
    value: string | undefined,
    request: BucketRequest,
    answered: (reply: BucketReply | undefined) => void,
    late: (reply: BucketReply) => void,
  ): boolean {
    this.returned += request.back;
    let waiting = true;
    let replied = false;
    this.#clock.alarm(TIMEOUT_MS, () => {
      if (!waiting) return;
      waiting = false;
      answered(undefined);
    });
    const deliver = (reply: BucketReply) => {
      if (replied || this.#clock.dead) return;
      replied = true;
      this.delivering = true;
      this.#delivered(value, request, reply, () => {
        if (waiting) {
          waiting = false;
          answered(reply);
        } else late(reply);
      });
      this.delivering = false;
    };
    // Tokens that come back are sent once: repeating that would make tokens.
    const times = request.back === 0 && this.#happens(this.#faults.repeated) ? 2 : 1;
    for (let n = 0; n < times; n++) this.#send(value, request, deliver);
    return true;
  }

  #send(
    value: string | undefined,
    request: BucketRequest,
    deliver: (reply: BucketReply) => void,
  ): void {
    this.#carry(() => {
      const send = (reply: BucketReply) =>
        this.#carry(() => this.#clock.whenRunning(this.#world.now, () => deliver(reply)));
      const reply = this.#answer(value, request);
      return reply instanceof Promise ? reply.then(send) : send(reply);
    });
  }

  /** Brings one message to the other side, perhaps. */
  #carry(arrive: () => void | Promise<void>): void {
    const { lost, slow } = this.#faults;
    if (this.cut || this.#happens(lost)) return;
    const way = this.#world.between(0, this.#happens(slow) ? SLOW_MS : WAY_MS);
    this.#world.at(this.#world.now + way, () => (this.cut ? undefined : arrive()));
  }

  #happens(part: number): boolean {
    return this.#world.chance() < part;
  }
}
