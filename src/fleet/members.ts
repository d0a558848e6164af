// The agents that share a store, as the records say that each of them leaves there: an agent knows those of its group,
// a controller all of them.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Batch, Store } from "#store/store.ts";
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
  /** The listener is called after each change of the list; what it throws is logged. The returned function removes it. */
  onChange(listener: () => void): () => void;
}

/** The members of the group of this process, itself included. */
export interface OwnGroup extends Members {
  /** This process as others see it; undefined until its port is open. */
  readonly self: Member | undefined;
  /** Resolves when the store has told who the members are, or this is closed. */
  readonly known: Promise<void>;
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

/** Far more agents than one etcd serves. */
const MAX_MEMBERS = 10_000;
/** A record has a few hundred bytes. */
const MAX_BYTES = 64 * 1024;

/** The members as the store has them, kept up to date until `close`. */
export class FollowedMembers implements Members {
  readonly #options: FollowMembersOptions;
  readonly #known = new Map<string, Member>();
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

  /** Records that were left out so far: unreadable ones, and those above 10 000. */
  get refused(): number {
    return this.#refused;
  }

  /** Resolves when the store has told who the members are, or this is closed. */
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

  #apply({ puts, deletes }: Batch): void {
    const { group, log } = this.#options;
    const before = new Map(this.#known);
    for (const key of deletes) this.#known.delete(key);
    for (const { key, value } of puts) {
      try {
        const member = readMember(key, value);
        // Groups may have a `/` in their names.
        if (group !== undefined && member.group !== group) continue;
        if (this.#known.size >= MAX_MEMBERS && !this.#known.has(key)) {
          throw new Fault("RESOURCE_EXHAUSTED", `wanted at most ${MAX_MEMBERS} agents, got more`);
        }
        this.#known.set(key, member);
      } catch (thrown) {
        this.#refused += 1;
        log.warn({}, `the record ${key} is left out: ${Fault.from(thrown).message}`);
      }
    }
    if (!sameMembers(before, this.#known)) {
      const entries = [...this.#known].sort(([a], [b]) => (a < b ? -1 : 1));
      this.#list = entries.map(([, member]) => member);
      for (const listener of [...this.#listeners]) this.#tell(listener);
    }
    this.#first.resolve();
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

function sameMembers(
  before: ReadonlyMap<string, Member>,
  after: ReadonlyMap<string, Member>,
): boolean {
  if (before.size !== after.size) return false;
  for (const [key, member] of after) {
    const old = before.get(key);
    if (old === member) continue;
    if (old === undefined || !sameMember(old, member)) return false;
  }
  return true;
}

function sameMember(a: Member, b: Member): boolean {
  if (a.hostname !== b.hostname || a.id !== b.id) return false;
  const names = Object.keys(a.services);
  return (
    names.length === Object.keys(b.services).length &&
    names.every((name) => a.services[name] === b.services[name])
  );
}
