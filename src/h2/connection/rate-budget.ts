// Limits the rate of operations that a peer could abuse, by budgets that refill with time and with completed calls.

import { loadError } from "../frames/connection-error.ts";
import {
  CONTROL_FRAME_BURST,
  CONTROL_FRAMES_PER_CALL,
  CONTROL_FRAMES_PER_SECOND,
  RESET_BURST,
  RESETS_PER_SECOND,
} from "../limits.ts";

/** The methods that return nothing throw a ConnectionError when the budget is used up. */
export class RateBudget {
  #control = CONTROL_FRAME_BURST;
  #resets = RESET_BURST;

  /** Spends one control frame. */
  controlFrame(): void {
    if (--this.#control < 0) throw loadError("control_flood", "too many control frames");
  }

  /** Spends one call that the peer cancelled. */
  resetReceived(): void {
    if (--this.#resets < 0) throw loadError("rapid_reset", "too many cancelled calls");
  }

  /** Spends one stream that the peer broke so that we had to reset it. */
  streamError(): void {
    if (--this.#resets < 0) throw loadError("made_reset", "too many broken streams");
  }

  /** Spends the cost of this many broken calls. Returns false if the budget is used up. */
  spend(calls: number): boolean {
    this.#resets -= calls;
    return this.#resets >= 0;
  }

  /** Earns budget for a call that was answered. */
  callAnswered(): void {
    if (this.#resets < RESET_BURST) this.#resets++;
    this.#control = Math.min(CONTROL_FRAME_BURST, this.#control + CONTROL_FRAMES_PER_CALL);
  }

  refill(seconds: number): void {
    const control = this.#control + CONTROL_FRAMES_PER_SECOND * seconds;
    this.#resets = Math.min(RESET_BURST, this.#resets + RESETS_PER_SECOND * seconds);
    this.#control = Math.min(CONTROL_FRAME_BURST, control);
  }
}
