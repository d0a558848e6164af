// The protocol between agents and the owner of a token bucket, the one place that counts it: a script in Redis, or an agent
// of the group. One request decides takes, returns tokens and renews a lease, in one step.

import type { BucketParams } from "#flow/counters/counter-engine.ts";

/** Equal amounts that are wanted one after the other. Each of them is granted whole or refused. */
export interface Run {
  readonly want: number;
  readonly times: number;
}

/** The treatment of a request for more than there is. */
type Overdraft = "refuse" | "owe";

/** The part of a request that concerns the tokens which an agent has leased: it spends them without asking. */
export interface LeaseRequest {
  /** Identifies the agent. A restarted agent is another one. */
  readonly agent: number;
  /** Higher in each request of an agent, over all keys. The owner ignores requests that are not newer than the last. */
  readonly turn: number;
  /** Tokens left of those that the agent leased. The others are spent. */
  readonly unspent: number;
  /** Tokens that it keeps of those. The others come back. */
  readonly keep: number;
  /** Tokens that it would like to lease beyond those. */
  readonly wish: number;
  /** Leases are whole multiples of it: the amount that flows want. Above 0. */
  readonly unit: number;
  /** Time for which the owner counts the lease as outstanding, from now on. */
  readonly durationMs: number;
}

export interface BucketRequest {
  /** In the order in which they were asked. */
  readonly runs: readonly Run[];
  /** Tokens that were taken and are returned. */
  readonly back: number;
  readonly overdraft: Overdraft;
  readonly lease: LeaseRequest | undefined;
}

export interface BucketReply {
  /** Number of grants in each run. */
  readonly granted: readonly number[];
  /** Tokens that are not spent, leased ones included. Never negative. */
  readonly tokens: number;
  /** Milliseconds until the first amount that was refused could be there, or until nothing is owed. */
  readonly waitMs: number;
  /** Tokens that the agent has leased now: those that it keeps, as far as the owner knows of them, and new ones. */
  readonly leased: number;
  /** Others want the leased tokens: the agent returns them. */
  readonly recall: boolean;
  /** Only for slots: the owner has no room for this key, and counts it together with others. */
  readonly full?: boolean;
  /** Only for slots: the tokens that were in flight before, where the owner knows. */
  readonly inFlight?: number | undefined;
}

/** The owner of one limiter's buckets, as an agent asks it. */
export interface BucketOwner {
  /** Makes new numbers count from now on. Absent where the caller tells the owner in another way. */
  adopt?(params: BucketParams): void;
  /**
   * `answered` is called once: with the reply, or with undefined when none arrives in time. `late` gets a reply that arrives
   * afterwards. Returns false, without any call, when the owner cannot be asked. The parameters are those adopted last.
   */
  ask(
    value: string | undefined,
    request: BucketRequest,
    answered: (reply: BucketReply | undefined) => void,
    late: (reply: BucketReply) => void,
  ): boolean;
}

/** A request that takes nothing and returns nothing: it reads the balance. */
export const EMPTY_REQUEST: BucketRequest = Object.freeze({
  runs: [],
  back: 0,
  overdraft: "refuse",
  lease: undefined,
});

/** For a request whose reply nobody waits for. */
export const IGNORED = (): undefined => undefined;

/** Returns tokens to the owner. While it is away they are lost, which admits less and never more. */
export function returnTokens(owner: BucketOwner, value: string | undefined, back: number): boolean {
  return back <= 0 || owner.ask(value, { ...EMPTY_REQUEST, back }, IGNORED, IGNORED);
}

/** Most agents that hold leases of one key at one time. Further ones ask for each flow. */
export const MAX_LEASES = 128;

/** Longest lease, ms. */
export const LONGEST_LEASE_MS = 60_000;
