// Handing over what was counted, when the agent that counts a key changes: buckets and slots go to their new owners, and
// those that others hand over to this agent are counted here.

import type { Clock } from "#base/clock.ts";
import { isSlotId } from "../../slot-ends.ts";
import type { Ring } from "../membership/ring.ts";
import type { OwnedLimiter, OwnedLimiters } from "../owned-limiters.ts";
import type { SlotLimiter } from "../owned-slots.ts";
import type { Link } from "./link.ts";
import type { Bucket, StoreMessage } from "./messages.ts";

export interface HandOverOptions {
  /** Process id of this agent. */
  readonly id: string;
  readonly clock: Clock;
  readonly owned: OwnedLimiters;
  /** Agents that have each bucket, the one that counts included. */
  readonly replicas: number;
  /** The members of now, and whether this agent is about to leave them. */
  readonly now: () => { readonly ring: Ring; readonly leaving: boolean };
  readonly linkTo: (id: string) => Link | undefined;
  /** This agent counts the bucket, which has changed or has other places for copies now. */
  readonly copy: (limiter: OwnedLimiter, lo: number, hi: number) => void;
}

/** Numbers since the start: buckets that came from other agents, and those given to them. */
export interface HandOverCounts {
  received: number;
  handedOver: number;
}

/** A bucket or a slot that another agent counts from now on. */
export type Moved = Bucket<OwnedLimiter> | Bucket<SlotLimiter>;

const NOBODY: ReadonlySet<string> = new Set();

export class HandOver {
  readonly counts: HandOverCounts = { received: 0, handedOver: 0 };
  readonly #options: HandOverOptions;
  #closed = false;

  constructor(options: HandOverOptions) {
    this.#options = options;
  }

  /** From now on nothing is delivered any more. */
  close(): void {
    this.#closed = true;
  }

  /** Takes over what another agent counted, or copies of it. */
  receive({ from, purpose, buckets }: StoreMessage): void {
    const { id, clock, owned, now } = this.#options;
    const isMember = now().ring.find(id) !== undefined;
    const time = clock.now();
    const moved: Moved[] = [];
    for (const { limiter: named, ...bucket } of buckets) {
      if (named.slots !== undefined) {
        if (!isSlotId(bucket.id)) continue;
        const limiter = owned.slots.known(named.name);
        if (limiter.planned === 0) limiter.slots = named.slots;
        moved.push({ ...bucket, limiter });
        continue;
      }
      const limiter = owned.known(named.name);
      if (limiter === undefined || named.params === undefined) continue;
      limiter.agree(named.params);
      if (purpose === "copy") {
        const { lo, hi, available, filledMs } = bucket;
        if (isMember) limiter.buckets.put(lo, hi, { available, mark: time + filledMs }, "copy");
      } else moved.push({ ...bucket, limiter, id: "" });
    }
    this.counts.received += moved.length;
    // One that leaves may be a member here until its last message, and must not get back what it hands over.
    void this.deliver(moved, NOBODY, purpose === "leave" ? from : undefined);
  }

  /**
   * Removes what others count from now on, and returns it. Of the agents that hold a bucket, the one ranked first in the old
   * ring and still present hands it over. The others only have copies.
   */
  remove(before: Ring, next: Ring): readonly Moved[] {
    const { id, clock, owned, replicas, copy } = this.#options;
    const wasMember = before.find(id) !== undefined;
    const isOwn = (lo: number, hi: number) => next.members[next.owner(lo, hi)]?.id === id;
    const now = clock.now();
    const moved: Moved[] = [];
    if (next.members.length === 0) return moved;
    for (const limiter of owned.all) {
      for (const [lo, hi] of limiter.keys()) {
        if (isOwn(lo, hi)) {
          copy(limiter, lo, hi);
          continue;
        }
        const order = before.order(lo, hi);
        const first = order.find((member) => member.id === id || next.find(member.id));
        const handsOver = !wasMember || first?.id === id;
        const bucket = handsOver ? limiter.buckets.read(lo, hi) : undefined;
        if (bucket !== undefined) {
          const { available, mark } = bucket;
          moved.push({ limiter, lo, hi, available, filledMs: mark - now, id: "" });
        }
        const copies = next.order(lo, hi).slice(0, replicas);
        const keepsCopy = copies.some((member) => member.id === id);
        if (handsOver || !keepsCopy) limiter.buckets.remove(lo, hi);
      }
    }
    // Slots have no copies: who counted them hands them over.
    const slots = owned.slots.remove((lo, hi) => !isOwn(lo, hi));
    for (const { tokens, start, ...slot } of slots) {
      moved.push({ ...slot, available: tokens, filledMs: start - now });
    }
    return moved;
  }

  /**
   * Gives each bucket to the agent that counts it now, this one included. Those `toNotify` learn that there is nothing
   * more for them. `leaver` gets nothing. Resolves when all have what is theirs.
   */
  async deliver(
    buckets: readonly Moved[],
    toNotify: ReadonlySet<string>,
    leaver?: string,
  ): Promise<void> {
    if (this.#closed) return;
    const { id: own, linkTo } = this.#options;
    const { ring: present, leaving } = this.#options.now();
    const ring = leaver === undefined ? present : present.without(leaver);
    const keepsAll = ring.find(own) === undefined && !leaving;
    const byOwner = new Map<string, Moved[]>([...toNotify].map((id) => [id, []]));
    for (const bucket of buckets) {
      const owner = ring.members[ring.owner(bucket.lo, bucket.hi)];
      if (keepsAll || owner === undefined || owner.id === own) {
        this.#keep(bucket);
        continue;
      }
      const theirs = byOwner.get(owner.id) ?? [];
      theirs.push(bucket);
      byOwner.set(owner.id, theirs);
    }
    const purpose = leaving ? "leave" : "hand over";
    await Promise.all(
      [...byOwner].map(async ([id, theirs]) => {
        const left = (await linkTo(id)?.store(purpose, theirs, toNotify.has(id))) ?? theirs;
        this.counts.handedOver += theirs.length - left.length;
        // Its owner went away before it had them.
        if (left.length > 0) await this.deliver(left as readonly Moved[], NOBODY, leaver);
      }),
    );
  }

  /** Counts from now on what another agent counted, or what could not be handed over. */
  #keep(moved: Moved): void {
    const { clock, owned, copy } = this.#options;
    const { lo, hi, available, filledMs, id } = moved;
    const mark = clock.now() + filledMs;
    if (isSlot(moved)) {
      const { limiter } = moved;
      owned.slots.adopt({ limiter, lo, hi, id, tokens: available, start: mark });
    } else {
      moved.limiter.buckets.put(lo, hi, { available, mark }, "take over");
      copy(moved.limiter, lo, hi);
    }
  }
}

function isSlot(moved: Moved): moved is Bucket<SlotLimiter> {
  return moved.id !== "";
}
