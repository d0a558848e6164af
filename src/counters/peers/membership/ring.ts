// Assigns keys to the members of a group by rendezvous hashing: when a member joins or leaves, only its own keys move
// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998).

import { createHash } from "node:crypto";

/** One agent that owns keys of its group. */
export interface RingMember {
  /** Unique and stable: a member that restarts under its name owns the same keys again. */
  readonly name: string;
  /** Identity of the process. It changes with a restart, in which the process loses its counts. */
  readonly id: string;
  /** `host:port` of its counters. */
  readonly address: string;
  /** `host:port` where it answers probes; undefined when it answers none. */
  readonly probe: string | undefined;
}

export class Ring {
  /** Sorted by name. */
  readonly members: readonly RingMember[];
  readonly #hashes: Int32Array;

  constructor(members: readonly RingMember[]) {
    this.members = members.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.#hashes = Int32Array.from(this.members, ({ name }) =>
      createHash("sha256").update(name).digest().readInt32LE(),
    );
  }

  /** The index of the owner of a key among all members, or among those marked in `among`; -1 if there is none. */
  owner(lo: number, hi: number, among?: readonly boolean[]): number {
    const hashes = this.#hashes;
    let first = -1;
    let most = -1;
    for (let at = 0; at < hashes.length; at++) {
      if (among !== undefined && among[at] !== true) continue;
      const score = mix(hashes[at] ?? 0, lo, hi);
      if (score > most) {
        most = score;
        first = at;
      }
    }
    return first;
  }

  /** The first `count` members for a key: its owner, and those that would own it next. */
  first(count: number, lo: number, hi: number): readonly RingMember[] {
    const hashes = this.#hashes;
    const scores: number[] = [];
    const found: number[] = [];
    for (let at = 0; at < hashes.length; at++) {
      const score = mix(hashes[at] ?? 0, lo, hi);
      let place = found.length;
      if (place === count) {
        place--;
        if (score <= (scores[place] ?? 0)) continue;
      }
      for (; place > 0 && score > (scores[place - 1] ?? 0); place--) {
        scores[place] = scores[place - 1] ?? 0;
        found[place] = found[place - 1] ?? 0;
      }
      scores[place] = score;
      found[place] = at;
    }
    return found.flatMap((at) => this.members[at] ?? []);
  }

  /** The ring without this member. */
  without(id: string): Ring {
    return this.find(id) === undefined
      ? this
      : new Ring(this.members.filter((member) => member.id !== id));
  }

  /** The present member with this id. */
  find(id: string): RingMember | undefined {
    return this.members.find((member) => member.id === id);
  }
}

/** A number of 32 bits that depends on all bits of three others (the finalizer of MurmurHash3, twice). */
function mix(member: number, lo: number, hi: number): number {
  let h = member ^ lo;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  h = (h ^ (h >>> 16)) + hi;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
