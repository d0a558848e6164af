// The agents of a group that count for each other, as one of them takes part: what it counts, what it asks the others, and
// what follows when the members change.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { HandOver, type HandOverCounts } from "./exchange/hand-over.ts";
import type { Link } from "./exchange/link.ts";
import type { BucketAsk, Take, TakeReply } from "./exchange/messages.ts";
import type { StoreMessage } from "./exchange/moved.ts";
import { Neighbours, type NeighboursOptions } from "./exchange/neighbours.ts";
import { type Answer, type OwnBucketAsk, type OwnTake, Takes } from "./exchange/takes.ts";
import { JOIN_MS, Joining } from "./membership/joining.ts";
import { type Exclusion, PresentMembers } from "./membership/present-members.ts";
import { Ring, type RingMember } from "./membership/ring.ts";
import type { OwnedLimiter, OwnedLimiters } from "./owned-limiters.ts";
import { replyOf, SlotRequests } from "./slot-requests.ts";

interface PeerGroupOptions extends NeighboursOptions {
  readonly owned: OwnedLimiters;
  /** Agents that have each bucket, the one that counts included. */
  readonly replicas: number;
  /** Answers only when the copies are written. */
  readonly synchronous: boolean;
}

/** Most processes whose messages are told apart. */
const MAX_SENDERS = 10_000;

/** Numbers since the start. */
export interface GroupCounts extends HandOverCounts {
  /** Members that did not hand over in time when this agent joined. */
  readonly unheard: number;
}

export class PeerGroup {
  /**
   * False while this agent can neither be asked nor ask others: every take and peek is undecided then, because what it
   * counted would be counted apart.
   */
  ready = true;
  readonly neighbours: Neighbours;
  /** Those of concurrency limiters. */
  readonly slots: SlotRequests;
  readonly #options: PeerGroupOptions;
  readonly #clock: Clock;
  readonly #owned: OwnedLimiters;
  readonly #takes: Takes;
  /** By process id: the number of the last message that was applied. They come in order. */
  readonly #applied = new Map<string, number>();
  readonly #present: PresentMembers;
  readonly #joining: Joining;
  readonly #handOver: HandOver;
  #unheard = 0;
  #ring = new Ring([]);
  /** Index of this agent in the ring; -1 when it counts for nobody. */
  #self = -1;
  #alone = true;
  #leaving = false;

  constructor(options: PeerGroupOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#present = new PresentMembers(options.log);
    this.#joining = new Joining({
      ...options,
      timedOut: (missing) => {
        this.#unheard += missing;
        this.#resend();
      },
    });
    this.#handOver = new HandOver({
      ...options,
      now: () => ({ ring: this.#ring, leaving: this.#leaving }),
      linkTo: (id) => this.neighbours.link(id),
      copy: (limiter, lo, hi) => void this.#copy(limiter, lo, hi),
    });
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
      takeHere: (take) => this.#takeHere(take),
      abandoned: ({ limiter, lo, hi, id, params }) =>
        void this.slots.end({ limiter, lo, hi }, id, params, true),
    });
    this.slots = new SlotRequests({
      ...options,
      linkOf,
      owned: options.owned.slots,
      countsNow: (lo, hi) => this.countsNow(lo, hi),
      takeElsewhere: (take) => this.#takes.takeSlot(take),
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

  get counts(): GroupCounts {
    return { ...this.#handOver.counts, unheard: this.#unheard };
  }

  /** Members that the store has and that count nothing any more, by name. */
  get excluded(): PresentMembers["excluded"] {
    return this.#present.excluded;
  }

  /** Waits for the others to hand over. */
  get joining(): boolean {
    return this.#joining.waits;
  }

  /** Takes for this agent's own checks, from a bucket that it counts. `lo` and `hi` are the hash of the key. */
  take(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    params: BucketParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> {
    const answer = limiter.buckets.takeHashed(lo, hi, amount, params, now);
    const copied = this.#copy(limiter, lo, hi);
    if (copied === undefined || !this.#options.synchronous) return answer;
    const kept = { ...answer };
    const pending = new Pending<EngineAnswer>(() => pending.settle(kept));
    void copied.then(() => pending.settle(kept));
    return pending;
  }

  /** Gives back to a bucket that this agent counts. */
  giveBack(
    limiter: OwnedLimiter,
    lo: number,
    hi: number,
    amount: number,
    params: BucketParams,
  ): boolean {
    const known = limiter.buckets.giveBackHashed(lo, hi, amount, params);
    void this.#copy(limiter, lo, hi);
    return known;
  }

  /**
   * Asks whoever counts a bucket, this agent included. False when nobody is asked; otherwise one of the two is called:
   * `answered` with undefined where there is no answer in time, and then `late` with one that comes afterwards.
   */
  ask(
    take: OwnBucketAsk,
    answered: (answer: Answer | undefined) => void,
    late: (answer: Answer) => void,
  ): boolean {
    const { request } = take;
    if (!this.ready) return false;
    // A request without anything asks what is left.
    const onlyBack = request.back > 0 && request.runs.length === 0 && request.lease === undefined;
    if (onlyBack && !this.countsNow(take.lo, take.hi)) return this.#takes.giveBack(take);
    this.#takes.ask(take, answered, late);
    return true;
  }

  /** Answers takes of another agent; a promise when they are answered only after copies are written. */
  answer(takes: readonly Take[]): readonly TakeReply[] | Promise<readonly TakeReply[]> {
    const copied: Promise<unknown>[] = [];
    const replies = takes.map((take): TakeReply => {
      const { limiter: asked, lo, hi } = take;
      if (!this.countsNow(lo, hi)) return "retry";
      if (take.request === undefined) {
        return asked.slots === undefined ? "retry" : this.slots.answer(take, asked.slots);
      }
      const limiter = this.#owned.known(asked.name);
      if (limiter === undefined || asked.params === undefined) return "retry";
      limiter.agree(asked.params);
      const { reply, copy } = this.#answerHere({ ...take, limiter });
      if (copy !== undefined) copied.push(copy);
      return reply;
    });
    if (!this.#options.synchronous || copied.length === 0) return replies;
    return Promise.all(copied).then(() => replies);
  }

  /** Takes over what another agent counted, or copies of it; a promise when that has to wait. */
  receive(message: StoreMessage): Promise<void> | undefined {
    const { from, number, purpose } = message;
    // A message that is sent again, because its reply was lost, is not applied again.
    if (number <= (this.#applied.get(from) ?? 0)) return undefined;
    const busy = purpose === "copy" ? this.#handOver.busy : undefined;
    if (busy === undefined) {
      this.#apply(message);
      return undefined;
    }
    // A copy must not take the place of what this agent counted and has not handed over yet. An older one is out of date.
    this.#note(message);
    return busy.then(() => {
      if (this.#applied.get(from) === number) this.#apply(message);
    });
  }

  #note({ from, number }: StoreMessage): void {
    if (this.#applied.size >= MAX_SENDERS) this.#applied.clear();
    this.#applied.set(from, number);
  }

  #apply(message: StoreMessage): void {
    this.#handOver.receive(message);
    // Not before: its sender sends a message again whose counts could not be taken over.
    this.#note(message);
    const { from, purpose, last } = message;
    if (!last) return;
    // Only now: what waits is decided as soon as the keys of one that left are counted here.
    if (purpose === "leave") this.exclude(from, "left");
    this.#joining.handedOver(from);
    this.#checkJoined();
  }

  /** The members as the store has them. */
  setMembers(list: readonly RingMember[]): void {
    this.#present.set(list);
    this.#follow();
  }

  /** A member counts nothing any more, although the store still has its record: others count its keys from now on. */
  exclude(id: string, why: Exclusion): void {
    this.#present.exclude(id, why);
    this.#follow();
  }

  /** True if a member has left the group, or its process seems to have ended. */
  hasEnded(id: string): boolean {
    return this.#present.hasEnded(id);
  }

  /** A member that was taken for gone answers. */
  include(id: string): void {
    this.#present.include(id);
    this.#follow();
  }

  /** Hands everything over and counts for nobody any more. Resolves when the others know, or after a time limit. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await within(JOIN_MS, this.#clock, this.#adopt());
  }

  close(): void {
    this.#leaving = true;
    this.#handOver.close();
    this.#joining.end();
    this.neighbours.close();
    this.#takes.close();
    this.slots.close();
  }

  /** Whether this agent counts the key, and may do so already. */
  countsNow(lo: number, hi: number): boolean {
    if (!this.ready) return false;
    if (this.#alone) return true;
    return !this.joining && this.#ring.owner(lo, hi) === this.#self;
  }

  #takeHere(take: OwnTake): Answer | Promise<Answer> | undefined {
    const { lo, hi } = take;
    if (!this.countsNow(lo, hi)) return undefined;
    if (take.request === undefined) {
      const { amount, id, params } = take;
      return replyOf(this.#owned.slots.take(take, amount, id, params, this.#clock.now()));
    }
    // The member that counts a key leases nothing of it: a lease is of no use to it, and would leave less for the
    // others.
    const request = { ...take.request, lease: undefined };
    const { reply, copy } = this.#answerHere({ ...take, request });
    return copy === undefined || !this.#options.synchronous ? reply : copy.then(() => reply);
  }

  /** Answers what concerns a bucket that this agent counts. `copy` resolves when its copies are written. */
  #answerHere({ limiter, lo, hi, request }: BucketAsk<OwnedLimiter>): {
    readonly reply: Answer;
    readonly copy: Promise<unknown> | undefined;
  } {
    const { params } = limiter;
    if (params === undefined) throw new Error("a limiter without numbers is asked");
    const reply = limiter.buckets.askHashed(lo, hi, request, params, this.#clock.now());
    return { reply, copy: this.#copy(limiter, lo, hi) };
  }

  /** Copies a bucket that this agent counts; undefined where there are no copies. */
  #copy(limiter: OwnedLimiter, lo: number, hi: number): Promise<unknown> | undefined {
    const { replicas } = this.#options;
    if (replicas <= 1 || this.#alone) return undefined;
    const [, ...others] = this.#ring.first(replicas, lo, hi);
    return Promise.all(others.map(({ id }) => this.neighbours.copy(id, limiter, lo, hi)));
  }

  #linkOf(lo: number, hi: number): Link | undefined {
    const owner = this.#ring.members[this.#ring.owner(lo, hi)];
    return owner === undefined ? undefined : this.neighbours.link(owner.id);
  }

  /** Makes the members of now count, while its caller goes on. */
  #follow(): void {
    this.#adopt().catch((thrown: unknown) => {
      this.#options.log.error({ error: thrown }, "a change of the members could not be followed");
    });
  }

  /** Makes the members of now count. Resolves when they have what they take over from this agent. */
  async #adopt(): Promise<void> {
    const { id } = this.#options;
    const members = this.#present.list.filter((member) => !this.#leaving || member.id !== id);
    const before = this.#ring;
    const same = ({ id, name, address }: RingMember) => {
      const known = before.find(id);
      return known?.name === name && known.address === address;
    };
    if (members.length === before.members.length && members.every(same)) return;
    this.#handOver.finish();
    const next = new Ring(members);
    // Before anything else: if it fails, the next change is still one from the members before.
    this.neighbours.set(next);
    const wasMember = this.#self >= 0;
    this.#ring = next;
    this.#self = next.members.findIndex((member) => member.id === id);
    this.#alone = members.every((member) => member.id === id);
    if (this.#self >= 0 && !this.#alone) {
      if (!wasMember) this.#joining.begin(next.members.filter((member) => member.id !== id));
    } else if (wasMember || this.#self >= 0) this.#joining.end();
    // Those who are new wait for what others have of their keys, and for nothing from one that leaves.
    const appeared = members.filter((member) => before.find(member.id) === undefined);
    const toNotify = this.#leaving ? members : this.#self < 0 ? [] : appeared;
    const ids = new Set(toNotify.map((each) => each.id));
    const handedOver = this.#handOver.change(before, next, ids);
    this.#checkJoined();
    this.#resend();
    await handedOver;
  }

  #checkJoined(): void {
    const isPresent = (id: string) => this.#ring.find(id) !== undefined;
    if (this.#joining.endIfAllHandedOver(isPresent)) this.#resend();
  }

  /** Sends again what waits for a change of hands. */
  #resend(): void {
    this.#takes.resend();
    this.slots.ends.resume();
  }
}
