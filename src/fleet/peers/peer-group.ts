// The agents of a group that count for each other: who counts which key, and handing over what was counted when that
// changes.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { within } from "#base/wait.ts";
import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { Link } from "./exchange/link.ts";
import type { Bucket, StoreMessage, Take, TakeReply } from "./exchange/messages.ts";
import { Neighbours, type NeighboursOptions } from "./exchange/neighbours.ts";
import { type BucketTake, isSlotTake, Takes, type WaitingTake } from "./exchange/takes.ts";
import { Ring, type RingMember } from "./membership/ring.ts";
import type { OwnedLimiter, OwnedLimiters } from "./owned-limiters.ts";
import type { SlotLimiter } from "./owned-slots.ts";
import { SlotRequests } from "./slot-requests.ts";

export interface PeerGroupOptions extends NeighboursOptions {
  readonly owned: OwnedLimiters;
  /** Agents that have each bucket, the one that counts included. */
  readonly replicas: number;
  /** Answers only when the copies are written. */
  readonly synchronous: boolean;
}

/** Numbers since the start. */
export interface GroupCounts {
  /** Buckets that came from other agents, and those given to them. */
  received: number;
  handedOver: number;
  /** Members that did not hand over in time when this agent joined. */
  unheard: number;
}

/** How long an agent that joins waits for what the others have counted of its keys, ms. */
const JOIN_MS = 2_000;
/** Most processes whose messages are told apart. */
const MOST_SENDERS = 10_000;

const RETRY: TakeReply = { outcome: "retry", remaining: 0, waitMs: 0, full: false };
const BACK: TakeReply = { outcome: "granted", remaining: 0, waitMs: 0, full: false };

export class PeerGroup {
  /**
   * False while this agent can neither be asked nor ask others: every take and peek is undecided then, because what it
   * counted would be counted apart.
   */
  ready = true;
  readonly counts: GroupCounts = { received: 0, handedOver: 0, unheard: 0 };
  readonly neighbours: Neighbours;
  /** Those of concurrency limiters. */
  readonly slots: SlotRequests;
  readonly #options: PeerGroupOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #owned: OwnedLimiters;
  readonly #takes: Takes;
  /** By process id: the number of the last message that was applied. They come in order. */
  readonly #applied = new Map<string, number>();
  /** Processes that have handed over all they had of this agent's keys. */
  readonly #finished = new Set<string>();
  /** Processes that are in the list and count nothing any more: they said so, or look as if they had ended. */
  readonly #excluded = new Map<string, "left" | "gone">();
  /** Members whose hand-over this agent waits for before it counts. */
  #awaited: ReadonlySet<string> = new Set();
  #stopWaiting: (() => void) | undefined;
  #list: readonly RingMember[] = [];
  #ring = new Ring([]);
  /** Index of this agent in the ring; -1 when it counts for nobody. */
  #self = -1;
  #alone = true;
  #leaving = false;
  #closed = false;

  constructor(options: PeerGroupOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#owned = options.owned;
    this.neighbours = new Neighbours({
      ...options,
      changed: (away) => {
        options.changed(away);
        this.slots.ends.resume();
      },
    });
    const linkOf = (lo: number, hi: number) => this.#linkOf(lo, hi);
    this.#takes = new Takes({
      ...options,
      linkOf,
      here: (take) => this.#takeHere(take),
      abandoned: ({ limiter, lo, hi, id, params }) =>
        void this.slots.end({ limiter, lo, hi }, id, params),
    });
    this.slots = new SlotRequests({
      ...options,
      linkOf,
      owned: options.owned.slots,
      countsNow: (lo, hi) => this.#countsNow(lo, hi),
      takeElsewhere: (take, now) => this.#takes.take(take, now),
    });
  }

  /** This agent counts, and nobody else does. */
  get alone(): boolean {
    return this.#alone && this.ready;
  }

  get owned(): OwnedLimiters {
    return this.#owned;
  }

  get ring(): Ring {
    return this.#ring;
  }

  /** Members that the store has and that count nothing any more, by name. */
  get excluded(): readonly { readonly name: string; readonly why: "left" | "gone" }[] {
    return this.#list.flatMap(({ id, name }) => {
      const why = this.#excluded.get(id);
      return why === undefined ? [] : [{ name, why }];
    });
  }

  /** Waits for the others to hand over. */
  get joining(): boolean {
    return this.#awaited.size > 0;
  }

  /** Takes for this agent's own checks. `lo` and `hi` are the hash of the key. */
  take(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> {
    if (!this.ready) return UNDECIDED;
    if (!this.#countsNow(lo, hi)) {
      const take = { limiter, lo, hi, amount, params, overflow: false, id: "" };
      return this.#takes.take(take, now);
    }
    const answer = this.#takeOwn(limiter, lo, hi, amount, params, now);
    const copied = this.#copy(limiter, lo, hi);
    if (copied === undefined || !this.#options.synchronous) return answer;
    const kept = { ...answer };
    const pending = new Pending<EngineAnswer>(() => pending.settle(kept));
    void copied.then(() => pending.settle(kept));
    return pending;
  }

  /** False when nobody can be told. `id` is that of the answer. */
  giveBack(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    id: string,
    params: BucketParams,
  ): boolean {
    if (!this.ready) return false;
    const overflow = id !== "";
    if (!this.#countsNow(lo, hi)) {
      return this.#takes.giveBack({ limiter, lo, hi, amount: -amount, overflow, id: "" });
    }
    return this.#giveBackOwn(limiter, lo, hi, amount, overflow, params);
  }

  /** Answers takes of another agent; a promise when they are answered only after copies are written. */
  answer(takes: readonly Take[]): readonly TakeReply[] | Promise<readonly TakeReply[]> {
    const now = this.#clock.now();
    const copied: Promise<unknown>[] = [];
    const replies = takes.map((take) => {
      const { limiter: asked, lo, hi, amount, overflow } = take;
      if (asked.slots !== undefined) {
        return this.#countsNow(lo, hi) ? this.slots.answer(take, asked.slots) : RETRY;
      }
      const limiter = this.#countsNow(lo, hi) ? this.#owned.known(asked.name) : undefined;
      if (limiter === undefined || asked.params === undefined) return RETRY;
      const params = limiter.agree(asked.params);
      if (amount < 0) {
        this.#giveBackOwn(limiter, lo, hi, -amount, overflow, params);
        return BACK;
      }
      const answer = this.#takeOwn(limiter, lo, hi, amount, params, now);
      const { remaining, waitMs, full } = answer;
      const outcome = answer.outcome === "granted" ? "granted" : "refused";
      const reply = { outcome, remaining, waitMs, full } as const;
      const copy = this.#copy(limiter, lo, hi);
      if (copy !== undefined) copied.push(copy);
      return reply;
    });
    if (!this.#options.synchronous || copied.length === 0) return replies;
    return Promise.all(copied).then(() => replies);
  }

  /** Takes over buckets that another agent counted, or copies of them. */
  receive({ from, number, purpose, last, buckets }: StoreMessage): void {
    // A message that is sent again, because its reply was lost, is not applied again.
    if (number <= (this.#applied.get(from) ?? 0)) return;
    if (this.#applied.size >= MOST_SENDERS) this.#applied.clear();
    this.#applied.set(from, number);
    const now = this.#clock.now();
    const onward: Moved[] = [];
    for (const bucket of buckets) {
      const { lo, hi, available, filledMs, id } = bucket;
      const { slots } = bucket.limiter;
      if (slots !== undefined) {
        const known = this.#owned.slots.known(bucket.limiter.name);
        if (known.planned === 0) known.slots = slots;
        onward.push({ limiter: known, lo, hi, available, filledMs, id });
        continue;
      }
      const limiter = this.#owned.known(bucket.limiter.name);
      if (limiter === undefined || bucket.limiter.params === undefined) continue;
      limiter.agree(bucket.limiter.params);
      if (purpose === "copy") {
        if (this.#self < 0) continue;
        limiter.buckets.put(lo, hi, { available, mark: now + filledMs }, "copy");
      } else onward.push({ limiter, lo, hi, available, filledMs, id });
    }
    if (last && purpose === "leave") this.exclude(from, "left");
    this.counts.received += onward.length;
    void this.#pass(onward, NOBODY);
    if (last) {
      this.#finished.add(from);
      this.#checkJoined();
    }
  }

  /** The members as the store has them. */
  setMembers(list: readonly RingMember[]): void {
    this.#list = list;
    const ids = new Set(list.map(({ id }) => id));
    for (const id of [...this.#excluded.keys()]) if (!ids.has(id)) this.#excluded.delete(id);
    void this.#adopt();
  }

  /** A member counts nothing any more, although the store still has its record: others count its keys from now on. */
  exclude(id: string, why: "left" | "gone"): void {
    const member = this.#list.find((each) => each.id === id);
    const before = this.#excluded.get(id);
    if (member === undefined || before === "left" || before === why) return;
    this.#excluded.set(id, why);
    const { name } = member;
    const others = "others count its keys";
    if (why === "left") this.#log.info({ peer: name }, `peer ${name} has left, ${others}`);
    else this.#log.warn({ peer: name }, `peer ${name} looks as if it had ended, ${others}`);
    void this.#adopt();
  }

  /** A member that was taken for gone answers. One that has left answers probes, too, until its process ends. */
  include(id: string): void {
    if (this.#excluded.get(id) !== "gone") return;
    this.#excluded.delete(id);
    const name = this.#list.find((each) => each.id === id)?.name ?? id;
    this.#log.info({ peer: name }, `peer ${name} is there after all, it counts its keys again`);
    void this.#adopt();
  }

  /** Hands everything over and counts for nobody any more. Resolves when the others know, or after a time limit. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await within(JOIN_MS, this.#clock, this.#adopt());
  }

  close(): void {
    this.#leaving = true;
    this.#closed = true;
    this.#joined();
    this.neighbours.close();
    this.#takes.close();
    this.slots.close();
  }

  /** Whether this agent counts the key, and may do so already. */
  #countsNow(lo: number, hi: number): boolean {
    if (!this.ready) return false;
    if (this.#alone) return true;
    return this.#awaited.size === 0 && this.#ring.owner(lo, hi) === this.#self;
  }

  #takeHere(take: WaitingTake) {
    const { lo, hi } = take;
    if (!this.#countsNow(lo, hi)) return undefined;
    if (!isSlotTake(take)) return this.#takeBucketHere(take);
    const { amount, id, params } = take;
    return this.#owned.slots.take(take, amount, id, params, this.#clock.now());
  }

  #takeBucketHere({ limiter, lo, hi, amount, params }: BucketTake) {
    const answer = this.#takeOwn(limiter, lo, hi, amount, params, this.#clock.now());
    const copied = this.#copy(limiter, lo, hi);
    if (copied === undefined || !this.#options.synchronous) return answer;
    const kept = { ...answer };
    return copied.then(() => kept);
  }

  #takeOwn(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer {
    if (lo === 0) return limiter.buckets.take(undefined, amount, params, now);
    this.#owned.hash.set(lo, hi);
    return limiter.buckets.takeHashed(amount, params, now);
  }

  #giveBackOwn(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    overflow: boolean,
    params: BucketParams,
  ): boolean {
    this.#owned.hash.set(lo, hi);
    const id = overflow ? "overflow" : "";
    const known = limiter.buckets.giveBackHashed(lo !== 0, amount, id, params);
    void this.#copy(limiter, lo, hi);
    return known;
  }

  /** Copies a bucket that this agent counts; undefined where there are no copies. */
  #copy(limiter: OwnedLimiter, lo: number, hi: number): Promise<unknown> | undefined {
    const { replicas } = this.#options;
    if (replicas <= 1 || this.#alone) return undefined;
    const others = this.#ring.order(lo, hi).slice(1, replicas);
    return Promise.all(others.map(({ id }) => this.neighbours.copy(id, limiter, lo, hi)));
  }

  #linkOf(lo: number, hi: number): Link | undefined {
    const owner = this.#ring.members[this.#ring.owner(lo, hi)];
    return owner === undefined ? undefined : this.neighbours.link(owner.id);
  }

  /** Makes the members of now count. Resolves when they have what they take over from this agent. */
  async #adopt(): Promise<void> {
    const { id } = this.#options;
    const members = this.#list.filter(
      (member) => !this.#excluded.has(member.id) && !(this.#leaving && member.id === id),
    );
    const before = this.#ring;
    const same = (member: RingMember) => before.find(member.id)?.address === member.address;
    if (members.length === before.members.length && members.every(same)) return;
    const next = new Ring(members);
    this.#ring = next;
    this.#self = next.members.findIndex((member) => member.id === id);
    this.#alone = members.every((member) => member.id === id);
    this.neighbours.set(next);
    if (this.#self < 0 || this.#alone) this.#joined();
    else if (before.find(id) === undefined) this.#join(next);
    // Those who are new wait for what others have of their keys, and for nothing from one that leaves.
    const appeared = members.filter((member) => before.find(member.id) === undefined);
    const told = this.#leaving ? members : this.#self < 0 ? [] : appeared;
    const passed = this.#pass(this.#moved(before, next), new Set(told.map((each) => each.id)));
    this.#checkJoined();
    this.#again();
    await passed;
  }

  /** Sends again what waits for a change of hands. */
  #again(): void {
    this.#takes.again();
    this.slots.ends.resume();
  }

  /** Waits for the others to hand over what they have counted of this agent's keys. */
  #join(next: Ring): void {
    const others = next.members.filter((member) => member.id !== this.#options.id);
    this.#awaited = new Set(others.map((member) => member.id));
    this.#stopWaiting?.();
    this.#stopWaiting = this.#clock.alarm(JOIN_MS, () => {
      const missing = next.members.filter((member) => this.#awaited.has(member.id));
      this.counts.unheard += missing.length;
      const names = missing.map(({ name }) => name).join(", ");
      const lost = "what they counted of the keys of this agent may be lost";
      this.#log.warn({}, `no hand-over from ${names} within ${JOIN_MS} ms: ${lost}`);
      this.#joined();
      this.#again();
    });
  }

  #checkJoined(): void {
    if (this.#awaited.size === 0) return;
    const waiting = [...this.#awaited].filter(
      (id) => this.#ring.find(id) !== undefined && !this.#finished.has(id),
    );
    this.#awaited = new Set(waiting);
    if (waiting.length > 0) return;
    this.#joined();
    this.#again();
  }

  #joined(): void {
    this.#awaited = NOBODY;
    this.#stopWaiting?.();
    this.#stopWaiting = undefined;
    this.#finished.clear();
  }

  /**
   * Removes the buckets that others count from now on, and returns them. Of several agents that have a bucket, the first
   * one in the order of before that is still there hands it over; the others have copies.
   */
  #moved(before: Ring, next: Ring): readonly Moved[] {
    const { id, replicas } = this.#options;
    const wasIn = before.find(id) !== undefined;
    const now = this.#clock.now();
    const moved: Moved[] = [];
    if (next.members.length === 0) return moved;
    for (const limiter of this.#owned.all) {
      for (const [lo, hi] of limiter.keys()) {
        if (next.owner(lo, hi) === this.#self) {
          void this.#copy(limiter, lo, hi);
          continue;
        }
        const order = before.order(lo, hi);
        const first = order.find((member) => member.id === id || next.find(member.id));
        const hands = !wasIn || first?.id === id;
        const bucket = hands ? limiter.buckets.read(lo, hi) : undefined;
        if (bucket !== undefined) {
          const { available, mark } = bucket;
          moved.push({ limiter, lo, hi, available, filledMs: mark - now, id: "" });
        }
        const copies = next.order(lo, hi).slice(0, replicas);
        if (hands || !copies.some((member) => member.id === id)) limiter.buckets.remove(lo, hi);
      }
    }
    // Slots have no copies: who counted them hands them over.
    const slots = this.#owned.slots.remove((lo, hi) => next.owner(lo, hi) !== this.#self);
    for (const { tokens, start, ...slot } of slots) {
      moved.push({ ...slot, available: tokens, filledMs: start - now });
    }
    return moved;
  }

  /**
   * Gives each bucket to the agent that counts it now, this one included. `told` are told that there is nothing more.
   * Resolves when all have what is theirs.
   */
  async #pass(buckets: readonly Moved[], told: ReadonlySet<string>): Promise<void> {
    if (this.#closed) return;
    const now = this.#clock.now();
    const byOwner = new Map<string, Moved[]>([...told].map((id) => [id, []]));
    for (const bucket of buckets) {
      const { lo, hi } = bucket;
      const owner = this.#ring.members[this.#ring.owner(lo, hi)];
      if (
        owner === undefined ||
        (this.#self < 0 && !this.#leaving) ||
        owner.id === this.#options.id
      ) {
        this.#keep(bucket, now);
      } else {
        const theirs = byOwner.get(owner.id) ?? [];
        theirs.push(bucket);
        byOwner.set(owner.id, theirs);
      }
    }
    const purpose = this.#leaving ? "leave" : "hand over";
    await Promise.all(
      [...byOwner].map(async ([id, theirs]) => {
        const link = this.neighbours.link(id);
        const left = (await link?.store(purpose, theirs, told.has(id))) ?? theirs;
        this.counts.handedOver += theirs.length - left.length;
        // Its owner went away before it had them.
        if (left.length > 0) await this.#pass(left as readonly Moved[], NOBODY);
      }),
    );
  }

  /** Counts from now on what another agent counted, or what could not be handed over. */
  #keep(moved: Moved, now: number): void {
    const { lo, hi, available, filledMs, id } = moved;
    const mark = now + filledMs;
    if (isSlot(moved)) {
      const { limiter } = moved;
      this.#owned.slots.adopt({ limiter, lo, hi, id, tokens: available, start: mark });
    } else {
      moved.limiter.buckets.put(lo, hi, { available, mark }, "take over");
      void this.#copy(moved.limiter, lo, hi);
    }
  }
}

/** A bucket or a slot that another agent counts from now on. */
type Moved = Bucket<OwnedLimiter> | Bucket<SlotLimiter>;

const NOBODY: ReadonlySet<string> = new Set();

function isSlot(moved: Moved): moved is Bucket<SlotLimiter> {
  return moved.id !== "";
}
