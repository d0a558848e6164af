// A row of the fault matrix: a fault, the load that runs meanwhile, and the number of flows that may be admitted. The
// bounds are part of the table, so they are stated before anything runs.

import type { Fleet, FleetOptions } from "./fleet.ts";
import type { LimitName } from "./limits.ts";
import type { Load } from "./load.ts";

export const FAMILIES = ["etcd", "controllers", "agents", "Redis", "peers"] as const;

/** Number of capacities that may be admitted for each key of each limit beyond capacity + refill, over any window. */
export type Bounds = Readonly<Partial<Record<LimitName, number>>>;

export interface Row {
  /** The name of the row: what happens. */
  readonly fault: string;
  readonly family: (typeof FAMILIES)[number];
  readonly fleet: FleetOptions;
  readonly bounds: Bounds;
  /** Groups of agents that count apart for a while: the refill of each is admitted. One unless given. */
  readonly sides?: number;
  /** The effect that users are told to expect, in a sentence or two. `happens` fails when it is not so. */
  readonly expected: string;
  /** Least number of checks in all that are sent while the fault lasts. */
  readonly checks: number;
  /** Runs on every `make test`. */
  readonly quick?: true;
  /** Runs only in a network of its own. */
  readonly network?: true;
  /** Called before the load starts. */
  prepare?(fleet: Fleet): Promise<void>;
  /** Makes the fault happen under load, and resolves when it is over and the fleet works as before. */
  happens(fleet: Fleet, load: Load): Promise<void>;
}

/** Replies to the checks of one limit that were sent while the fault lasted. */
export interface Seen {
  readonly accepted: number;
  readonly refused: number;
  /** Accepted or refused by `on_failure`, because the limiter could not decide. */
  readonly onFailure: number;
  /** Errors, lost connections and replies that did not come in time. */
  readonly unanswered: number;
}

export interface Observation {
  readonly seen: Seen;
  /** Most that was admitted for one key beyond capacity + refill; for slots, most in flight beyond the limit. */
  readonly beyond: number;
  /** Keys that were asked for. */
  readonly keys: number;
}

export type Observations = Readonly<Partial<Record<LimitName, Observation>>>;

export const sum = ({ accepted, refused, onFailure, unanswered }: Seen): number =>
  accepted + refused + onFailure + unanswered;
