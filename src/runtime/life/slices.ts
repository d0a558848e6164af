// Divides long work into slices. Between two of them the event loop turns, so that checks do not wait for the work.

import { setImmediate } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";

/** Milliseconds that a slice takes before it ends. A single piece of work may take it beyond that. */
const SLICE_MS = 4;

/** Pieces of work in a slice, however quick they are. */
export const SLICE_PIECES = 32;

export class Slices {
  readonly #clock: Pick<Clock, "now">;
  #until: number;
  #pieces = 0;
  #turn: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
    this.#until = clock.now() + SLICE_MS;
  }

  /** Call it after each piece of work: resolves at once, or in the next turn of the event loop where a slice is full. */
  async pause(): Promise<void> {
    this.#pieces += 1;
    if (this.#pieces < SLICE_PIECES && this.#clock.now() < this.#until) return;
    await this.end();
  }

  /**
   * For work of several callers in one series of slices: resolves for one after the other, each time with room for a piece
   * of work. The caller does it at once, without another wait before it.
   */
  turn(): Promise<void> {
    this.#turn = this.#turn.then(() => this.pause());
    return this.#turn;
  }

  /** Takes all steps, each a piece of work. */
  async take<T>(steps: Generator<void, T>): Promise<T> {
    for (let step = steps.next(); ; step = steps.next()) {
      await this.pause();
      if (step.done === true) return step.value;
    }
  }

  /** Ends the slice: resolves in the next turn. Call it before a piece of work that takes a slice or more by itself. */
  async end(): Promise<void> {
    await setImmediate();
    this.#pieces = 0;
    this.#until = this.#clock.now() + SLICE_MS;
  }
}
