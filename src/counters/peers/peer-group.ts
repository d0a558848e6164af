// This agent as a member of its group: it counts the keys that it owns, asks the owners of other keys, and hands keys over
// when the members change.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { HandOver, type HandOverCounts } from "./exchange/hand-over.ts";
import type { Link } from "./exchange/link.ts";
import type { BucketMessage, Take, TakeReply } from "./exchange/messages.ts";
import { type Answer, OwnerRequests, type OwnRequest } from "./exchange/owner-requests.ts";
import { PeerLinks, type PeerLinksOptions } from "./exchange/peer-links.ts";
import type { StoreMessage } from "./exchange/transfers.ts";
import { JOIN_MS, Joining } from "./membership/joining.ts";
import { PresentMembers } from "./membership/present-members.ts";
import { Ring, type RingMember } from "./membership/ring.ts";
import type { OwnedLimiter, OwnedLimiters } from "./owned-limiters.ts";
import { replyOf, SlotRequests } from "./slot-requests.ts";

interface PeerGroupOptions extends PeerLinksOptions {
  readonly owned: OwnedLimiters;
  /** Agents that have each bucket, its owner included. */
  readonly replicas: number;
  /** Answers wait until the copies are written. */
  readonly synchronous: boolean;
}

/** Most processes whose message numbers are remembered. */
const MAX_SENDERS = 10_000;

/** Numbers since the start. */
interface GroupCounts extends HandOverCounts {
  /** Members that did not hand over in time when this agent joined. */
  readonly unheard: number;
}

export class PeerGroup {
  /**
   * False while this agent can neither be asked nor ask others: every take is undecided then, because
   * other agents would not know of its counts.
   */
  ready = true;
  /** The members according to the store and the probes. */
  readonly members: PresentMembers;
  readonly links: PeerLinks;
  /** Requests to the owners of keys. */
  readonly requests: OwnerRequests;
  readonly slots: SlotRequests;
  readonly owned: OwnedLimiters;
  readonly #options: PeerGroupOptions;
  readonly #clock: Clock;
  /** The number of the last applied message, by process id. Messages arrive in order. */
  readonly #applied = new Map<string, number>();
  readonly #joining: Joining;
  readonly #handOver: HandOver;
  #missedHandOvers = 0;
  #ring = new Ring([]);
  /** Index of this agent in the ring; -1 when it is no member. */
  #self = -1;
  #isOnlyMember = true;
  #leaving = false;

  constructor(options: PeerGroupOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.members = new PresentMembers(options.log, () => this.#follow());
    this.#joining = new Joining({
      ...options,
      timedOut: (missing) => {
        this.#missedHandOvers += missing;
        this.#resend();
      },
    });
    this.#handOver = new HandOver({
      ...options,
      now: () => ({ ring: this.#ring, leaving: this.#leaving }),
      linkTo: (id) => this.links.link(id),
      copy: (limiter, lo, hi) => void this.#copy(limiter, lo, hi),
    });
    this.owned = options.owned;
    this.links = new PeerLinks({
      ...options,
      changed: (away) => {
        options.changed(away);
        this.slots.ends.resume();
      },
    });
    const linkOf = (lo: number, hi: number) => this.#linkOf(lo, hi);
    const owns = (lo: number, hi: number) => this.owns(lo, hi);
    this.requests = new OwnerRequests({
      ...options,
      linkOf,
      owns,
      isReady: () => this.ready,
      answerHere: (request) => this.#answerOwn(request),
      abandoned: ({ limiter, lo, hi, id, params }) =>
        void this.slots.end({ limiter, lo, hi }, id, params, true),
    });
    this.slots = new SlotRequests({
      ...options,
      linkOf,
      owned: options.owned.slots,
      owns,
      requests: this.requests,
    });
  }

  /** This agent owns all keys. */
  get isOnlyMember(): boolean {
    return this.#isOnlyMember && this.ready;
  }

  get ring(): Ring {
    return this.#ring;
  }

  get counts(): GroupCounts {
    return { ...this.#handOver.counts, unheard: this.#missedHandOvers };
  }

  /** True if this agent waits for the others to hand over. */
  get joining(): boolean {
    return this.#joining.waits;
  }

  /** Takes for this agent's own checks, from a bucket that it owns. `lo` and `hi` are the hash of the key. */
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

  /** Gives back to a bucket that this agent owns. */
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

  /** Answers takes of another agent; a promise when they are answered only after copies are written. */
  answer(takes: readonly Take[]): readonly TakeReply[] | Promise<readonly TakeReply[]> {
    const copied: Promise<unknown>[] = [];
    const replies = takes.map((take): TakeReply => {
      const { limiter: asked, lo, hi } = take;
      if (!this.owns(lo, hi)) return "retry";
      if (take.request === undefined) {
        return asked.slots === undefined ? "retry" : this.slots.answer(take, asked.slots);
      }
      const limiter = this.owned.known(asked.name);
      if (limiter === undefined || asked.params === undefined) return "retry";
      limiter.agree(asked.params);
      const { reply, copy } = this.#answerHere({ ...take, limiter });
      if (copy !== undefined) copied.push(copy);
      return reply;
    });
    if (!this.#options.synchronous || copied.length === 0) return replies;
    return Promise.all(copied).then(() => replies);
  }

  /** Takes over buckets and slots of another agent, or stores copies; a promise if that has to wait. */
  receive(message: StoreMessage): Promise<void> | undefined {
    const { from, number, purpose } = message;
    // A message that is sent again, because its reply was lost, is not applied again.
    if (number <= (this.#applied.get(from) ?? 0)) return undefined;
    const busy = purpose === "copy" ? this.#handOver.busy : undefined;
    if (busy === undefined) {
      this.#apply(message);
      return undefined;
    }
    // A copy must not replace a bucket that this agent has not handed over yet. Only the latest copy is applied.
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
    // Not earlier: if the message could not be applied, its sender sends it again.
    this.#note(message);
    const { from, purpose, last } = message;
    if (!last) return;
    // Not earlier: waiting requests are decided as soon as this agent owns the keys of the leaver.
    if (purpose === "leave") this.members.exclude(from, "left");
    this.#joining.handedOver(from);
    this.#checkJoined();
  }

  /** Hands over all keys. Resolves when the others have them, or after a time limit. */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await within(JOIN_MS, this.#clock, this.#adopt());
  }

  close(): void {
    this.#leaving = true;
    this.#handOver.close();
    this.#joining.end();
    this.links.close();
    this.requests.close();
    this.slots.close();
  }

  /** True if this agent owns the key and has received the counts of earlier owners. */
  owns(lo: number, hi: number): boolean {
    if (!this.ready) return false;
    if (this.#isOnlyMember) return true;
    return !this.joining && this.#ring.owner(lo, hi) === this.#self;
  }

  /** Answers a request of this agent; undefined if another agent owns the key. */
  #answerOwn(take: OwnRequest): Answer | Promise<Answer> | undefined {
    const { lo, hi } = take;
    if (!this.owns(lo, hi)) return undefined;
    if (take.request === undefined) {
      const { amount, id, params } = take;
      return replyOf(this.owned.slots.take(take, amount, id, params, this.#clock.now()));
    }
    // The owner of a key needs no lease, which would leave less for the others.
    const request = { ...take.request, lease: undefined };
    const { reply, copy } = this.#answerHere({ ...take, request });
    return copy === undefined || !this.#options.synchronous ? reply : copy.then(() => reply);
  }

  /** Answers a request about a bucket that this agent owns. `copy` resolves when its copies are written. */
  #answerHere({ limiter, lo, hi, request }: BucketMessage<OwnedLimiter>): {
    readonly reply: Answer;
    readonly copy: Promise<unknown> | undefined;
  } {
    const { params } = limiter;
    if (params === undefined) throw new Error("a limiter without numbers is asked");
    const reply = limiter.buckets.askHashed(lo, hi, request, params, this.#clock.now());
    return { reply, copy: this.#copy(limiter, lo, hi) };
  }

  /** Copies a bucket that this agent owns; undefined if there are no replicas. */
  #copy(limiter: OwnedLimiter, lo: number, hi: number): Promise<unknown> | undefined {
    const { replicas } = this.#options;
    if (replicas <= 1 || this.#isOnlyMember) return undefined;
    const [, ...others] = this.#ring.first(replicas, lo, hi);
    return Promise.all(others.map(({ id }) => this.links.copy(id, limiter, lo, hi)));
  }

  #linkOf(lo: number, hi: number): Link | undefined {
    const owner = this.#ring.members[this.#ring.owner(lo, hi)];
    return owner === undefined ? undefined : this.links.link(owner.id);
  }

  /** Adopts a change of the members in the background. */
  #follow(): void {
    this.#adopt().catch((thrown: unknown) => {
      this.#options.log.error({ error: thrown }, "a change of the members could not be followed");
    });
  }

  /** Adopts the present members. Resolves when they have taken over their keys from this agent. */
  async #adopt(): Promise<void> {
    const { id } = this.#options;
    const members = this.members.list.filter((member) => !this.#leaving || member.id !== id);
    const before = this.#ring;
    const same = ({ id, name, address }: RingMember) => {
      const known = before.find(id);
      return known?.name === name && known.address === address;
    };
    if (members.length === before.members.length && members.every(same)) return;
    this.#handOver.finish();
    const next = new Ring(members);
    // First, so that if this fails, the next change still starts from the previous members.
    this.links.set(next);
    const wasMember = this.#self >= 0;
    this.#ring = next;
    this.#self = next.members.findIndex((member) => member.id === id);
    this.#isOnlyMember = members.every((member) => member.id === id);
    if (this.#self >= 0 && !this.#isOnlyMember) {
      if (!wasMember) this.#joining.begin(next.members.filter((member) => member.id !== id));
    } else if (wasMember || this.#self >= 0) this.#joining.end();
    // New members wait for the hand-over of their keys, except from an agent that leaves.
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

  /** Sends requests again that wait for a change of ownership. */
  #resend(): void {
    this.requests.resend();
    this.slots.ends.resume();
  }
}
