// The protocol between agents and the owner of a token bucket, the one place that counts it: a script in Redis, or an agent
// of the group. One request decides takes, returns tokens and renews a lease, in one step.

import type { BucketParams } from "#flow/counters/counter-engine.ts";

/** `times` consecutive takes of `want` tokens. Each take is granted whole or refused. */
export interface Run {
  readonly want: number;
  readonly times: number;
}

/** What happens to a request for more tokens than are available. */
type Overdraft = "refuse" | "owe";

/** The part of a request that concerns the lease of an agent, whose tokens it spends without asking. */
export interface LeaseRequest {
  /** Identifies the agent. A restarted agent is another one. */
  readonly agent: number;
  /** Higher in each request of an agent, over all keys. The owner ignores requests that are not newer than the last. */
  readonly turn: number;
  /** Leased tokens that the agent has not spent. */
  readonly unspent: number;
  /** Unspent tokens that the agent keeps. The rest are returned. */
  readonly keep: number;
  /** Tokens that it would like to lease in addition. */
  readonly wish: number;
  /** Leases grow by whole multiples of this: the tokens that one flow wants. Above 0. */
  readonly unit: number;
  /** Time for which the owner counts the lease as outstanding, from now on. */
  readonly durationMs: number;
}

export interface BucketRequest {
  /** In the order of the takes. */
  readonly runs: readonly Run[];
  /** Taken tokens that are returned. */
  readonly back: number;
  readonly overdraft: Overdraft;
  readonly lease: LeaseRequest | undefined;
}

export interface BucketReply {
  /** Number of grants in each run. */
  readonly granted: readonly number[];
  /** Tokens that are not spent, leased ones included. Never negative. */
  readonly tokens: number;
  /** Milliseconds until the first refused take could be granted, or until no tokens are owed. */
  readonly waitMs: number;
  /** Tokens that the agent now holds on lease, kept and new ones. The owner ignores kept tokens that it does not know of. */
  readonly leased: number;
  /** Others want the leased tokens: the agent returns them. */
  readonly recall: boolean;
  /** Slots only: the owner has no room for this key and counts it together with others. */
  readonly full?: boolean;
  /** Only for slots: the tokens that were in flight before, where the owner knows. */
  readonly inFlight?: number | undefined;
}

/** The owner of one limiter's buckets, from the point of view of an agent. */
export interface BucketOwner {
  /** Applies new parameters from now on. Absent where the owner gets them in another way. */
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
