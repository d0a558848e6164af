// An agent as the holder of leases, shared by all its limiters: its identity, the settings of leases, and its counters.

import { randomInt } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import type { LeaseSettings } from "../settings.ts";

/** Numbers since the start. */
export interface LeaseCounts {
  /** Flows that leased tokens or credit admitted without asking. */
  granted: number;
  /** Flows refused without asking, because the owner had just refused as much. */
  refused: number;
  /** Flows that waited for the owner. */
  asked: number;
  /** Flows of keys that this agent counts itself. */
  own: number;
  /** Keys that are followed now. */
  keys: number;
  /** Tokens that flows cost beyond their estimates, and that the owner will never hear of. */
  lost: number;
}

/** Agents are told apart by a random number below it: the most that `randomInt` draws from. */
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

  /** An agent that no other has the id of. */
  static random(clock: Clock, settings: LeaseSettings): LeaseHolder {
    return new LeaseHolder(randomInt(MAX_AGENTS), clock, settings);
  }

  /** Numbers the requests of this agent. */
  nextTurn(): number {
    this.#turn += 1;
    return this.#turn;
  }
}
