// Makes a joining agent wait until all other members have handed over the keys that it now owns, or until a time limit.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { RingMember } from "./ring.ts";

interface JoiningOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Called at the time limit, with the number of members that did not hand over. */
  readonly timedOut: (missing: number) => void;
}

/** Longest wait, ms. */
export const JOIN_MS = 2_000;
/** Most processes remembered for handing over early, far more than a group has. */
const MAX_EARLY = 10_000;

export class Joining {
  readonly #options: JoiningOptions;
  /** By process id. */
  #awaited: ReadonlyMap<string, RingMember> = new Map();
  /** Processes that have handed over. Some do so before this agent learns that it is a member. */
  readonly #handedOver = new Set<string>();
  #stopAlarm: (() => void) | undefined;

  constructor(options: JoiningOptions) {
    this.#options = options;
  }

  get waits(): boolean {
    return this.#awaited.size > 0;
  }

  /** A process has handed over everything. */
  handedOver(id: string): void {
    if (this.#handedOver.size >= MAX_EARLY) this.#handedOver.clear();
    this.#handedOver.add(id);
  }

  /** This agent has become a member; `others` are the other members. */
  begin(others: readonly RingMember[]): void {
    const { clock, log, timedOut } = this.#options;
    this.#awaited = new Map(others.map((member) => [member.id, member]));
    this.#stopAlarm?.();
    this.#stopAlarm = clock.alarm(JOIN_MS, () => {
      const missing = [...this.#awaited.values()];
      const names = missing.map(({ name }) => name).join(", ");
      const lost = "what they counted of the keys of this agent may be lost";
      log.warn({}, `no hand-over from ${names} within ${JOIN_MS} ms: ${lost}`);
      this.end();
      timedOut(missing.length);
    });
  }

  /** Ends the wait when all that are still present have handed over. Returns whether it is over now. */
  endIfAllHandedOver(isPresent: (id: string) => boolean): boolean {
    if (!this.waits) return false;
    this.#awaited = new Map(
      [...this.#awaited].filter(([id]) => isPresent(id) && !this.#handedOver.has(id)),
    );
    if (this.waits) return false;
    this.end();
    return true;
  }

  /** Ends the join. Members that have handed over will do so again when this agent joins again. */
  end(): void {
    this.#awaited = new Map();
    this.#stopAlarm?.();
    this.#stopAlarm = undefined;
    this.#handedOver.clear();
  }
}
