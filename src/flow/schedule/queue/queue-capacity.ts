// Limits on the flows that wait in queues, and on the memory that they hold.

export interface QueueBounds {
  readonly flows: number;
  readonly bytes: number;
}

/** Limits of one scheduler. Further flows are refused at once. */
export const MAX_QUEUED: QueueBounds = { flows: 16_384, bytes: 32 << 20 };

/** Counts the flows in the queues of one scheduler, or in those of all schedulers of an agent. */
export class QueueCapacity {
  flows = 0;
  bytes = 0;
  readonly #bounds: QueueBounds;
  readonly #outer: QueueCapacity | undefined;

  constructor(bounds: QueueBounds, outer?: QueueCapacity) {
    this.#bounds = bounds;
    this.#outer = outer;
  }

  /** Number of flows for which there is room. */
  get free(): number {
    const free = this.#bounds.flows - this.flows;
    return this.#outer === undefined ? free : Math.min(free, this.#outer.free);
  }

  hasRoomFor(bytes: number): boolean {
    return this.bytes + bytes <= this.#bounds.bytes && this.#outer?.hasRoomFor(bytes) !== false;
  }

  add(bytes: number): void {
    this.flows += 1;
    this.bytes += bytes;
    this.#outer?.add(bytes);
  }

  remove(bytes: number): void {
    this.flows -= 1;
    this.bytes -= bytes;
    this.#outer?.remove(bytes);
  }
}
