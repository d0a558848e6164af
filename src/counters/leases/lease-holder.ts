// An agent as the holder of leases, shared by all its limiters: its identity, the settings of leases, and its counters.

import { randomInt } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import type { LeaseSettings } from "../settings.ts";

/** Numbers since the start. */
export interface LeaseCounts {
  /** Flows admitted on leased tokens or credit, without a request. */
  granted: number;
  /** Flows refused without a request, because the owner had just refused as many tokens. */
  refused: number;
  /** Flows that waited for the owner. */
  asked: number;
  /** Flows of keys that this agent counts itself. */
  own: number;
  /** Keys that are followed now. */
  keys: number;
  /** Tokens of costs above estimates that could not be reported to the owner. */
  lost: number;
}

/** The ids of agents are random integers below this, the largest range of `randomInt`. */
const MAX_AGENTS = 2 ** 48 - 1;

export class LeaseHolder {
  readonly id: number;
  readonly clock: Clock;
  readonly settings: LeaseSettings;
  readonly counts: LeaseCounts = { granted: 0, refused: 0, asked: 0, own: 0, keys: 0, lost: 0 };
  #turn = 0;

  /** `id` is a random integer, as large as a double holds exactly. */
  constructor(id: number, clock: Clock, settings: LeaseSettings) {
    this.id = id;
    this.clock = clock;
    this.settings = settings;
  }

  /** An agent with a random id. */
  static random(clock: Clock, settings: LeaseSettings): LeaseHolder {
    return new LeaseHolder(randomInt(MAX_AGENTS), clock, settings);
  }

  /** Numbers the requests of this agent. */
  nextTurn(): number {
    this.#turn += 1;
    return this.#turn;
  }
}
