// Waiting with a time limit.

import type { Clock } from "../clock.ts";

/** Resolves after `ms`, or as soon as the signal aborts. */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      disarm();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const disarm = clock.alarm(ms, end);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}

/**
 * Waits for work, but at most `ms`. Settles as the work does, or after that time with the result or exception of
 * `late`. The work continues; its outcome is ignored.
 */
export function within(ms: number, clock: Clock, work: Promise<unknown>): Promise<void>;
export function within<T>(ms: number, clock: Clock, work: Promise<T>, late: () => T): Promise<T>;
export async function within(
  ms: number,
  clock: Clock,
  work: Promise<unknown>,
  late: () => unknown = () => undefined,
): Promise<unknown> {
  const over = Promise.withResolvers<void>();
  const disarm = clock.alarm(ms, over.resolve);
  return Promise.race([work, over.promise.then(late)]).finally(disarm);
}
