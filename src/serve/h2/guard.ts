// What a peer may do too often: budgets that refill with time and with honest calls.

import { ConnectionFault } from "./fault.ts";
import { ERROR } from "./frames.ts";
import {
  CONTROL_BURST,
  CONTROL_PER_CALL,
  CONTROL_PER_SECOND,
  RESET_BURST,
  RESETS_PER_SECOND,
} from "./limits.ts";

export class Guard {
  #control = CONTROL_BURST;
  #resets = RESET_BURST;

  /** A frame that carries no call. Throws when there were too many. */
  control(): void {
    if (--this.#control < 0) {
      throw new ConnectionFault(ERROR.calm, "control_flood", "too many frames that carry nothing");
    }
  }

  /** The peer took a call back. */
  takenBack(): void {
    if (--this.#resets < 0) {
      throw new ConnectionFault(ERROR.calm, "rapid_reset", "too many calls taken back");
    }
  }

  /** The peer broke a stream so that we had to reset it. */
  broken(): void {
    if (--this.#resets < 0) {
      throw new ConnectionFault(ERROR.calm, "made_reset", "too many broken streams");
    }
  }

  /** The peer made work that is worth so many broken calls. False: it was too much. */
  pays(calls: number): boolean {
    this.#resets -= calls;
    return this.#resets >= 0;
  }

  /** A call was answered. */
  answered(): void {
    if (this.#resets < RESET_BURST) this.#resets++;
    if (this.#control < CONTROL_BURST) this.#control += CONTROL_PER_CALL;
  }

  refill(seconds: number): void {
    this.#resets = Math.min(RESET_BURST, this.#resets + RESETS_PER_SECOND * seconds);
    this.#control = Math.min(CONTROL_BURST, this.#control + CONTROL_PER_SECOND * seconds);
  }
}
