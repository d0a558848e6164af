// This agent as a member of its group: its record in the store, and the others of the group.

import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { LeasedKeys } from "#store/leased-keys.ts";
import type { Store } from "#store/store.ts";
import { appliedKey, peerKey } from "#sync/keys.ts";
import { FollowedMembers, type Member, type OwnGroup, writeMember } from "./members.ts";

export interface JoinOptions {
  readonly store: Store;
  readonly group: string;
  readonly hostname: string;
  /** Id of this process. */
  readonly id: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called with the reason when the store does not take the record, and with undefined when it has taken it. */
  readonly announced: (fault: Fault | undefined) => void;
}

/** Limit of other agents whose record at its address this one overwrites. A restarted agent counts as another one. */
const MAX_RIVALS = 16;

export class JoinedGroup implements OwnGroup {
  readonly #options: JoinOptions;
  readonly #members: FollowedMembers;
  readonly #keys: LeasedKeys;
  readonly #services = new Map<string, string>();
  #address: string | undefined;
  /** True if the list had a record at the address of this agent when it changed last. */
  #isListed = false;
  /** The list has had the record of this agent since it was announced at its address. */
  #wasListed = false;
  /** Ids of other agents over whose records this one has written its own. */
  readonly #rivals = new Set<string>();
  #left = false;

  constructor(options: JoinOptions) {
    this.#options = options;
    const { store, group, clock, log, announced: written } = options;
    this.#members = new FollowedMembers({ store, group, clock, log });
    this.#keys = new LeasedKeys({ store, clock, log, written });
    this.#members.onChange(() => {
      this.#restoreRecord();
      this.#resolveConflict();
    });
  }

  get list(): readonly Member[] {
    return this.#members.list;
  }

  get known(): Promise<void> {
    return this.#members.known;
  }

  get leftOut(): ReadonlyMap<string, string> {
    return this.#members.leftOut;
  }

  get refused(): number {
    return this.#members.refused;
  }

  onChange(listener: () => void): () => void {
    return this.#members.onChange(listener);
  }

  get self(): Member | undefined {
    const { group, hostname, id } = this.#options;
    if (this.#address === undefined) return undefined;
    const services = Object.fromEntries(this.#services);
    return { group, address: this.#address, hostname, services, id };
  }

  register(service: string, address: string): void {
    this.#services.set(service, address);
    this.#write();
  }

  /** Announces this agent: it can be reached at `address`. */
  announce(address: string): void {
    this.#address = address;
    this.#write();
  }

  /** Publishes the versions of policies that this agent applies. */
  publish(applied: Uint8Array): void {
    const { group, id } = this.#options;
    this.#keys.put(appliedKey(group, id), applied);
  }

  /** Deletes the record, so that nobody asks this agent any more. */
  async leave(): Promise<void> {
    this.#left = true;
    await this.#keys.close();
  }

  async close(): Promise<void> {
    await this.leave();
    await this.#members.close();
  }

  #write(): void {
    const { self } = this;
    if (self !== undefined) this.#keys.put(peerKey(self.group, self.address), writeMember(self));
  }

  /**
   * Writes the record again when it was deleted, or replaced by one that is left out. Without a record, other agents would
   * count apart from this one.
   */
  #restoreRecord(): void {
    const { self, list, leftOut } = this;
    if (self === undefined) return;
    const isListed = list.some(({ address }) => address === self.address);
    const isGone = this.#isListed && !isListed;
    this.#isListed = isListed;
    if (isGone || leftOut.has(peerKey(self.group, self.address))) this.#write();
  }

  /**
   * Another agent has overwritten the record of this one, because both announce one address. From then on this agent is
   * announced by its id, so that both are members. If it has not seen its own record yet, the other record may be that of its
   * own process before a restart: then it writes its record once more, once for each other agent, so that this ends.
   */
  #resolveConflict(): void {
    const { self, list } = this;
    if (self === undefined || this.#left) return;
    this.#wasListed ||= list.some(({ id, address }) => id === self.id && address === self.address);
    const rival = list.find(({ address, id }) => address === self.address && id !== self.id);
    if (rival === undefined) return;
    if (this.#wasListed) {
      this.#options.log.warn(
        { address: self.address },
        `another agent announces the address of this one, ${self.address}, so this one is announced as ${self.id}: set peer_discovery.advertisement_addr`,
      );
      this.#wasListed = false;
      this.#keys.release(peerKey(self.group, self.address));
      this.announce(self.id);
    } else if (!this.#rivals.has(rival.id) && this.#rivals.size < MAX_RIVALS) {
      this.#rivals.add(rival.id);
      this.#write();
    }
  }
}
