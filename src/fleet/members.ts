// The agents that share a store, read from the record of each. An agent follows the records of its group, a controller those
// of all groups.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Entry, Store, StoreUpdate } from "#store/store.ts";
import { PEERS, parsePeerKey, peerKey } from "#sync/keys.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { followStore } from "./follow-store.ts";

const PEER = "aperture.peers.v1.Peer";

/** One agent. */
export interface Member {
  readonly group: string;
  /** `host:port` of its main port, unique in its group. */
  readonly address: string;
  readonly hostname: string;
  /** Addresses of further services of the agent, by name of the service. */
  readonly services: Readonly<Record<string, string>>;
  /** Identity of the process; "" for agents of other implementations. */
  readonly id: string;
}

export interface Members {
  /** In order of their keys. The same object as long as nobody comes, changes or goes. */
  readonly list: readonly Member[];
  /**
   * The listener is called after each change of the list, and of the records that are left out of it; its errors are
   * logged. The returned function removes it.
   */
  onChange(listener: () => void): () => void;
}

/** The members of the group of this process, itself included. */
export interface OwnGroup extends Members {
  /** This process as others see it; undefined until its port is open. */
  readonly self: Member | undefined;
  /** Resolves when the members are known, or this is closed. */
  readonly known: Promise<void>;
  /** Records of the group that are left out of the list, by key, each with the reason. */
  readonly leftOut: ReadonlyMap<string, string>;
  /** Announces where a service of this process can be reached. */
  register(service: string, address: string): void;
}

export function writeMember({ address, hostname, services, id }: Member): Uint8Array {
  return encode(PEER, { address, hostname, services, id });
}

/** @throws Fault INVALID_ARGUMENT when key or value are not those of an agent's record */
export function readMember(key: string, value: Uint8Array): Member {
  const { group, address = "" } = parsePeerKey(key) ?? {};
  if (group === undefined) throw new Fault("INVALID_ARGUMENT", `${key} is not the key of an agent`);
  if (value.length > MAX_BYTES) {
    const got = `${value.length} bytes`;
    throw new Fault("INVALID_ARGUMENT", `wanted at most ${MAX_BYTES} bytes, got ${got}`);
  }
  const { hostname, services, id } = decode(PEER, value);
  return { group, address, hostname, services, id };
}

interface FollowMembersOptions {
  readonly store: Pick<Store, "watch">;
  /** Undefined: all groups. */
  readonly group?: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** Far more agents than one etcd serves. As many records that are left out are remembered. */
const MAX_MEMBERS = 10_000;
/** A record has a few hundred bytes. */
const MAX_BYTES = 64 * 1024;

interface Known {
  readonly member: Member;
  /** Revision of the store. */
  readonly created: number;
}

/** The members as the store has them, kept up to date until `close`. */
export class FollowedMembers implements Members {
  readonly #options: FollowMembersOptions;
  readonly #known = new Map<string, Known>();
  readonly #unusable = new Map<string, string>();
  #leftOut: ReadonlyMap<string, string> = new Map();
  readonly #listeners = new Set<() => void>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  readonly #first = Promise.withResolvers<void>();
  #list: readonly Member[] = [];
  #refused = 0;

  constructor(options: FollowMembersOptions) {
    this.#options = options;
    this.#ended = this.#follow();
  }

  get list(): readonly Member[] {
    return this.#list;
  }

  get leftOut(): ReadonlyMap<string, string> {
    return this.#leftOut;
  }

  /** Number of records that were left out so far. */
  get refused(): number {
    return this.#refused;
  }

  /** Resolves when the members are known, or this is closed. */
  get known(): Promise<void> {
    return this.#first.promise;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #follow(): Promise<void> {
    const { group } = this.#options;
    await followStore({
      ...this.#options,
      // With the separator at its end: the keys of group `ab` do not start with the prefix of group `a`.
      prefixes: [group === undefined ? PEERS : peerKey(group, "")],
      what: "the records of agents",
      apply: (batch) => this.#apply(batch),
      signal: this.#stop.signal,
    });
    this.#first.resolve();
  }

  #apply({ puts, deletes }: StoreUpdate): void {
    const before = this.#list;
    for (const key of deletes) {
      this.#known.delete(key);
      this.#unusable.delete(key);
    }
    for (const entry of puts) this.#put(entry);
    const copies = copiesAmong(this.#known);
    const entries = [...this.#known].filter(([key]) => !copies.has(key));
    const list = entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { member }]) => member);
    const isSameList = sameMembers(before, list);
    if (!isSameList) this.#list = list;
    const isSameLeftOut = this.#leaveOut(new Map([...this.#unusable, ...copies]));
    if (!isSameList || !isSameLeftOut) {
      for (const listener of [...this.#listeners]) this.#tell(listener);
    }
    this.#first.resolve();
  }

  #put({ key, value, created, leased }: Entry): void {
    const { group } = this.#options;
    this.#known.delete(key);
    this.#unusable.delete(key);
    try {
      const member = readMember(key, value);
      // Groups may have a `/` in their names.
      if (group !== undefined && member.group !== group) return;
      // Every agent writes its record under a lease. One without would stay for ever, and nobody may be there.
      if (!leased) throw new Fault("INVALID_ARGUMENT", NO_LEASE);
      if (this.#known.size >= MAX_MEMBERS) {
        throw new Fault("RESOURCE_EXHAUSTED", `wanted at most ${MAX_MEMBERS} agents, got more`);
      }
      this.#known.set(key, { member, created });
    } catch (thrown) {
      if (this.#unusable.size >= MAX_MEMBERS) this.#refused += 1;
      else this.#unusable.set(key, Fault.from(thrown).message);
    }
  }

  /** Counts and logs the records that are left out from now on. Returns whether they are the same as before. */
  #leaveOut(now: ReadonlyMap<string, string>): boolean {
    const before = this.#leftOut;
    const added = [...now].filter(([key, why]) => before.get(key) !== why);
    for (const [key, why] of added) {
      this.#refused += 1;
      this.#options.log.warn({}, `the record ${key} is left out: ${why}`);
    }
    this.#leftOut = now;
    return added.length === 0 && before.size === now.size;
  }

  /** A listener that fails must not keep the change from the others. */
  #tell(listener: () => void): void {
    try {
      listener();
    } catch (thrown) {
      this.#options.log.error({ error: thrown }, "a change of the agents could not be followed");
    }
  }
}

const NO_LEASE =
  "it has no lease, so it would outlive its agent; delete the key if no agent wrote it";

/**
 * The records whose id an older record has, by key, each with the reason. An id is that of one process, which has one
 * record. All agents see which one is the older, so they agree.
 */
function copiesAmong(known: ReadonlyMap<string, Known>): ReadonlyMap<string, string> {
  const oldest = new Map<string, Known & { readonly key: string }>();
  for (const [key, each] of known) {
    const { id } = each.member;
    const other = oldest.get(id);
    const isOlder =
      other === undefined ||
      each.created < other.created ||
      (each.created === other.created && key < other.key);
    if (id !== "" && isOlder) oldest.set(id, { ...each, key });
  }
  const copies = new Map<string, string>();
  for (const [key, { member }] of known) {
    const first = oldest.get(member.id)?.key ?? key;
    if (first === key) continue;
    copies.set(key, `the older record ${first} already has this agent's id`);
  }
  return copies;
}

function sameMembers(before: readonly Member[], after: readonly Member[]): boolean {
  return (
    before.length === after.length &&
    before.every((old, at) => {
      const member = after[at];
      return member !== undefined && (old === member || sameMember(old, member));
    })
  );
}

function sameMember(a: Member, b: Member): boolean {
  if (a.group !== b.group || a.address !== b.address) return false;
  if (a.hostname !== b.hostname || a.id !== b.id) return false;
  const names = Object.keys(a.services);
  return (
    names.length === Object.keys(b.services).length &&
    names.every((name) => a.services[name] === b.services[name])
  );
}
