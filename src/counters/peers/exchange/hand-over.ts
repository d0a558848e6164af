// Hands buckets and slots over to their new owners when the members change, and takes over those of other agents.

import { finish } from "#base/async/steps.ts";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import { Slices } from "#runtime/life/slices.ts";
import { isSlotId } from "../../slot-ends.ts";
import type { Ring } from "../membership/ring.ts";
import type { OwnedLimiter, OwnedLimiters } from "../owned-limiters.ts";
import type { OwnedSlotLimiter } from "../owned-slots.ts";
import type { Link } from "./link.ts";
import type { BucketTransfer, SlotTransfer, StoreMessage } from "./transfers.ts";

interface HandOverOptions {
  /** Process id of this agent. */
  readonly id: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly owned: OwnedLimiters;
  /** Agents that have each bucket, its owner included. */
  readonly replicas: number;
  /** The current members, and whether this agent is about to leave. */
  readonly now: () => { readonly ring: Ring; readonly leaving: boolean };
  readonly linkTo: (id: string) => Link | undefined;
  /** Copies a bucket of this agent that has changed or has other replicas now. */
  readonly copy: (limiter: OwnedLimiter, lo: number, hi: number) => void;
}

/** Since the start: buckets and slots received from other agents, and those handed over to them. */
export interface HandOverCounts {
  received: number;
  handedOver: number;
}

/** A bucket or slot that moves between agents, with its limiter at this agent. */
type OwnTransfer = BucketTransfer<OwnedLimiter> | SlotTransfer<OwnedSlotLimiter>;

/** By the process id of the new owner. */
type ByOwner = Map<string, OwnTransfer[]>;

/** A change of members, and its effect on the keys of this agent. */
class Change {
  readonly next: Ring;
  /**
   * Buckets and slots removed so far, by their new owner. A member that waits for the end of the hand-over has an entry
   * even if it gets nothing.
   */
  readonly moved: ByOwner;
  readonly #before: Ring;
  readonly #id: string;
  /** Indexes of this agent; -1 if it is not a member. */
  readonly #ownBefore: number;
  readonly #ownNext: number;
  /** For each previous member, whether it is still present. This agent counts as present. */
  readonly #present: readonly boolean[];
  readonly #keepsAll: boolean;

  constructor(
    id: string,
    before: Ring,
    next: Ring,
    options: { readonly toNotify: ReadonlySet<string>; readonly leaving: boolean },
  ) {
    this.next = next;
    this.moved = new Map([...options.toNotify].map((member) => [member, []]));
    this.#before = before;
    this.#id = id;
    this.#ownBefore = before.members.findIndex((member) => member.id === id);
    this.#ownNext = next.members.findIndex((member) => member.id === id);
    this.#present = before.members.map(
      (member) => member.id === id || next.find(member.id) !== undefined,
    );
    this.#keepsAll = this.#ownNext < 0 && !options.leaving;
  }

  /** True if this agent owns a key from now on. */
  owns(lo: number, hi: number): boolean {
    return this.next.owner(lo, hi) === this.#ownNext;
  }

  /**
   * True if this agent hands a bucket over. Of the agents that hold the bucket, the first in the old ring that is still
   * present does; the others only have copies. An agent that was not a member hands over everything that it counted.
   */
  handsOver(lo: number, hi: number): boolean {
    if (this.#ownBefore < 0) return true;
    return this.#before.owner(lo, hi, this.#present) === this.#ownBefore;
  }

  add(moved: OwnTransfer): void {
    const owner = this.next.members[this.next.owner(moved.lo, moved.hi)];
    add(this.moved, this.#keepsAll || owner === undefined ? this.#id : owner.id, moved);
  }
}

const NOBODY: ReadonlySet<string> = new Set();
/** Keys examined in one step after a change of members: less than a millisecond with fifty members. */
const STEP_KEYS = 256;

export class HandOver {
  readonly counts: HandOverCounts = { received: 0, handedOver: 0 };
  readonly #options: HandOverOptions;
  /** The remaining steps of the last change of members; undefined when it is complete. */
  #steps: Generator<void, void> | undefined;
  /** Resolves when these steps are done. */
  #done: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: HandOverOptions) {
    this.#options = options;
  }

  /** Delivers nothing from now on. */
  close(): void {
    this.#closed = true;
  }

  /** Resolves when the last change of members is complete; undefined if it is already. */
  get busy(): Promise<void> | undefined {
    return this.#steps === undefined ? undefined : this.#done;
  }

  /** Takes over buckets and slots that another agent counted, or stores copies. */
  receive({ from, purpose, moved: received }: StoreMessage): void {
    const { id, clock, owned, now } = this.#options;
    const isMember = now().ring.find(id) !== undefined;
    const time = clock.now();
    const moved: OwnTransfer[] = [];
    for (const each of received) {
      const { name, params, slots } = each.limiter;
      if (each.kind === "slot") {
        if (slots === undefined || !isSlotId(each.id)) continue;
        const limiter = owned.slots.known(name);
        limiter.agree(slots);
        moved.push({ ...each, limiter });
        continue;
      }
      const limiter = owned.known(name);
      if (limiter === undefined || params === undefined) continue;
      limiter.agree(params);
      if (purpose === "copy") {
        const { lo, hi, available, filledMs } = each;
        if (isMember) limiter.buckets.put(lo, hi, { available, mark: time + filledMs }, "copy");
      } else moved.push({ ...each, limiter });
    }
    this.counts.received += moved.length;
    // An agent that leaves may be a member here until its last message, and must not get its keys back.
    this.deliver(moved, purpose === "leave" ? from : undefined).catch((thrown: unknown) =>
      this.#logLoss(thrown, "what other agents handed over could not be taken over in full"),
    );
  }

  /**
   * Hands over the keys that others own after a change of members, in slices between which checks go on. The members
   * `toNotify` are told when nothing more follows for them. Resolves when all new owners have their keys.
   */
  async change(before: Ring, next: Ring, toNotify: ReadonlySet<string>): Promise<void> {
    const { id, clock, now } = this.#options;
    const { leaving } = now();
    const change = new Change(id, before, next, { toNotify, leaving });
    let sent: Promise<void> | undefined;
    const steps = this.#examine(change, () => {
      this.#steps = undefined;
      sent = this.#send(change.moved, toNotify);
    });
    this.#steps = steps;
    this.#done = new Slices(clock).take(steps);
    await this.#done;
    await sent;
  }

  /** Finishes the last change at once. Needed before the next one, which has other members. */
  finish(): void {
    if (this.#steps !== undefined) finish(this.#steps);
  }

  /**
   * Examines all keys, some in each step, and removes those that others own now. Does not throw: removed keys have to be
   * sent, and the next change must not fail because of this one.
   */
  *#examine(change: Change, done: () => void): Generator<void, void> {
    try {
      yield* this.#remove(change);
    } catch (thrown) {
      this.#logLoss(thrown, "what this agent counted for others could not be handed over in full");
    }
    done();
  }

  *#remove(change: Change): Generator<void, void> {
    const { clock, owned, replicas, copy, id } = this.#options;
    const { next } = change;
    // Without members there is no new owner, so nothing may be removed here.
    if (next.members.length === 0) return;
    let examined = 0;
    for (const limiter of owned.all) {
      const hashes = limiter.hashes();
      for (let at = 0; at < hashes.length; at += 2) {
        if (++examined % STEP_KEYS === 0) yield;
        if (this.#closed) return;
        const [lo, hi] = [hashes[at] ?? 0, hashes[at + 1] ?? 0];
        if (change.owns(lo, hi)) {
          copy(limiter, lo, hi);
          continue;
        }
        const handsOver = change.handsOver(lo, hi);
        const bucket = handsOver ? limiter.buckets.read(lo, hi) : undefined;
        if (bucket !== undefined) {
          const { available, mark } = bucket;
          const filledMs = mark - clock.now();
          change.add({ kind: "bucket", limiter, lo, hi, available, filledMs });
        }
        const keepsCopy =
          replicas > 1 && next.first(replicas, lo, hi).some((each) => each.id === id);
        if (handsOver || !keepsCopy) limiter.buckets.remove(lo, hi);
      }
    }
    // Slots have no copies: their owner hands them over.
    const removing = owned.slots.remove(
      (lo, hi) => !change.owns(lo, hi),
      ({ start, ...slot }) => change.add({ kind: "slot", ...slot, startMs: start - clock.now() }),
    );
    for (const _ of removing) {
      if (++examined % STEP_KEYS === 0) yield;
      if (this.#closed) return;
    }
  }

  /** Gives each bucket and slot to its owner, which may be this agent. `leaver` gets nothing. */
  async deliver(all: readonly OwnTransfer[], leaver?: string): Promise<void> {
    if (this.#closed) return;
    const { id: own } = this.#options;
    const { ring: present, leaving } = this.#options.now();
    const ring = leaver === undefined ? present : present.without(leaver);
    const keepsAll = ring.find(own) === undefined && !leaving;
    const byOwner: ByOwner = new Map();
    for (const moved of all) {
      const owner = ring.members[ring.owner(moved.lo, moved.hi)];
      add(byOwner, keepsAll || owner === undefined ? own : owner.id, moved);
    }
    await this.#send(byOwner, NOBODY, leaver);
  }

  async #send(byOwner: ByOwner, toNotify: ReadonlySet<string>, leaver?: string): Promise<void> {
    if (this.#closed) return;
    const { id: own, linkTo, now } = this.#options;
    const purpose = now().leaving ? "leave" : "hand over";
    await Promise.all(
      [...byOwner].map(async ([id, theirs]) => {
        const link = id === own ? undefined : linkTo(id);
        // Without a link the keys stay here: otherwise they would be delivered to the same member again and again.
        if (id === own || (link === undefined && now().ring.find(id) !== undefined)) {
          for (const moved of theirs) this.#keep(moved);
          return;
        }
        const left =
          link === undefined ? theirs : await link.store(purpose, theirs, toNotify.has(id));
        this.counts.handedOver += theirs.length - left.length;
        // The new owner left before it received them.
        if (left.length > 0) await this.deliver(left, leaver);
      }),
    );
  }

  #logLoss(thrown: unknown, what: string): void {
    this.#options.log.error({ error: thrown }, `${what}: limits may admit more until they refill`);
  }

  /** Counts here from now on what another agent counted, or what could not be handed over. */
  #keep(moved: OwnTransfer): void {
    const { clock, owned, copy } = this.#options;
    const { lo, hi } = moved;
    if (moved.kind === "slot") {
      const { limiter, id, tokens, startMs } = moved;
      owned.slots.adopt({ limiter, lo, hi, id, tokens, start: clock.now() + startMs });
      return;
    }
    const { limiter, available, filledMs } = moved;
    limiter.buckets.put(lo, hi, { available, mark: clock.now() + filledMs }, "take over");
    copy(limiter, lo, hi);
  }
}

function add(byOwner: ByOwner, id: string, moved: OwnTransfer): void {
  const theirs = byOwner.get(id);
  if (theirs === undefined) byOwner.set(id, [moved]);
  else theirs.push(moved);
}
