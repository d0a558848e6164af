// The queues of one scheduler, by key. A queue exists while flows are in it.

import type { Observer } from "../../observer.ts";
import type { FlowJob } from "../front-end.ts";
import { FlowQueue, type FlowQueueContext } from "./flow-queue.ts";
import { MAX_QUEUED, type QueueBounds, QueueCapacity } from "./queue-capacity.ts";

export interface QueueContext extends Omit<FlowQueueContext, "capacity"> {
  readonly observer: Observer;
  /** The limit of all schedulers together. */
  readonly capacity: QueueCapacity;
}

export class QueueSet {
  readonly #context: FlowQueueContext & QueueContext;
  readonly #queues = new Map<string, FlowQueue>();

  constructor(context: QueueContext, bounds: QueueBounds = MAX_QUEUED) {
    this.#context = { ...context, capacity: new QueueCapacity(bounds, context.capacity) };
  }

  /** Number of queues. */
  get size(): number {
    return this.#queues.size;
  }

  /** Flows that wait. */
  get flows(): number {
    return this.#context.capacity.flows;
  }

  /** True if flows with this key are queued. */
  isQueuing(key: string): boolean {
    const queue = this.#queues.get(key);
    return queue !== undefined && queue.size > 0;
  }

  /** The queue for a flow of this size in bytes; undefined, which is counted, when there is no room for it. */
  queueFor(key: string, job: FlowJob, bytes: number): FlowQueue | undefined {
    const queue = this.#queues.get(key) ?? this.#open(key);
    if (queue.hasRoomFor(job, bytes)) return queue;
    this.#context.observer.anomaly("queue_full");
    if (queue.size === 0) this.#queues.delete(key);
    return undefined;
  }

  wake(key: string): void {
    this.#queues.get(key)?.wake();
  }

  wakeAll(): void {
    for (const queue of [...this.#queues.values()]) queue.wake();
  }

  close(): void {
    for (const queue of [...this.#queues.values()]) queue.close();
  }

  #open(key: string): FlowQueue {
    const queue = new FlowQueue(this.#context, () => {
      if (this.#queues.get(key) === queue) this.#queues.delete(key);
    });
    this.#queues.set(key, queue);
    return queue;
  }
}
