// Limits the rate of operations that a peer could abuse: budgets that refill with time and with completed calls.

import { ConnectionError } from "../frames/connection-error.ts";
import { ERROR_CODE } from "../frames/format.ts";
import {
  CONTROL_FRAME_BURST,
  CONTROL_FRAMES_PER_CALL,
  CONTROL_FRAMES_PER_SECOND,
  RESET_BURST,
  RESETS_PER_SECOND,
} from "../limits.ts";

export class RateBudget {
  #control = CONTROL_FRAME_BURST;
  #resets = RESET_BURST;

  /** Spends one control frame. Throws a ConnectionError when there were too many. */
  controlFrame(): void {
    if (--this.#control < 0) {
      throw new ConnectionError(
        ERROR_CODE.enhanceYourCalm,
        "control_flood",
        "too many control frames",
      );
    }
  }

  /** Spends one call that the peer cancelled. */
  resetReceived(): void {
    if (--this.#resets < 0) {
      throw new ConnectionError(
        ERROR_CODE.enhanceYourCalm,
        "rapid_reset",
        "too many cancelled calls",
      );
    }
  }

  /** Spends one stream that the peer broke so that we had to reset it. */
  streamError(): void {
    if (--this.#resets < 0) {
      throw new ConnectionError(
        ERROR_CODE.enhanceYourCalm,
        "made_reset",
        "too many broken streams",
      );
    }
  }

  /** Spends the cost of so many broken calls. Returns false if the budget is used up. */
  spend(calls: number): boolean {
    this.#resets -= calls;
    return this.#resets >= 0;
  }

  /** Earns back budget for a call that was answered. */
  callAnswered(): void {
    if (this.#resets < RESET_BURST) this.#resets++;
    this.#control = Math.min(CONTROL_FRAME_BURST, this.#control + CONTROL_FRAMES_PER_CALL);
  }

  refill(seconds: number): void {
    this.#resets = Math.min(RESET_BURST, this.#resets + RESETS_PER_SECOND * seconds);
    this.#control = Math.min(
      CONTROL_FRAME_BURST,
      this.#control + CONTROL_FRAMES_PER_SECOND * seconds,
    );
  }
}
