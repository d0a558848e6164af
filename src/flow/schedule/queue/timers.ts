// The timers of all queues, on one alarm of the clock: thousands of waiting flows need a single timer of the runtime.

import type { Clock } from "#base/clock.ts";
import { Heap, type HeapItem } from "./heap.ts";

/** A timer, which can be set again. */
export class Timer implements HeapItem {
  heapIndex = -1;
  /** On `Clock.now()`. */
  at = 0;
  readonly ring: () => void;

  constructor(ring: () => void) {
    this.ring = ring;
  }

  get isSet(): boolean {
    return this.heapIndex >= 0;
  }
}

export class Timers {
  readonly #clock: Clock;
  readonly #heap = new Heap<Timer>((a, b) => a.at < b.at);
  #stopAlarm: (() => void) | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;
  #ringing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of timers that are set. */
  get size(): number {
    return this.#heap.size;
  }

  /** Rings the timer once at `at` on `Clock.now()`, or as soon as this call has returned if that has passed. */
  set(timer: Timer, at: number): void {
    this.#heap.remove(timer);
    timer.at = at;
    this.#heap.push(timer);
    if (at < this.#alarmAt && !this.#ringing) this.#arm();
  }

  cancel(timer: Timer): void {
    this.#heap.remove(timer);
    // An alarm without a timer is harmless, so only cancelling the last timer stops it.
    if (this.#heap.size === 0) this.#disarm();
  }

  #arm(): void {
    this.#disarm();
    const { first } = this.#heap;
    if (first === undefined) return;
    this.#alarmAt = first.at;
    const ms = Math.max(0, first.at - this.#clock.now());
    this.#stopAlarm = this.#clock.alarm(ms, () => this.#ring());
  }

  #disarm(): void {
    this.#stopAlarm?.();
    this.#stopAlarm = undefined;
    this.#alarmAt = Number.POSITIVE_INFINITY;
  }

  #ring(): void {
    this.#disarm();
    const now = this.#clock.now();
    this.#ringing = true;
    try {
      for (let { first } = this.#heap; first !== undefined; { first } = this.#heap) {
        if (first.at > now) break;
        this.#heap.remove(first);
        first.ring();
      }
    } finally {
      this.#ringing = false;
      this.#arm();
    }
  }
}
