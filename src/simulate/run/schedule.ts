// Runs tasks at fixed times. The next time of a task is requested only after the last run: a long simulation has
// millions of them.

export interface ScheduledTask {
  /** Ascending, ms. */
  readonly times: Iterator<number>;
  run(at: number): void | Promise<void>;
}

/** Runs all tasks to their ends. At equal times tasks run in list order, after `advanceTo`. */
export async function runSchedule(
  tasks: readonly ScheduledTask[],
  advanceTo: (at: number) => void,
): Promise<void> {
  const due = tasks.map(({ times }) => next(times));
  for (;;) {
    const at = due.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
    if (at === Number.POSITIVE_INFINITY) return;
    advanceTo(at);
    for (const [index, task] of tasks.entries()) {
      if (due[index] !== at) continue;
      await task.run(at);
      due[index] = next(task.times);
    }
  }
}

function next(times: Iterator<number>): number {
  const { done, value } = times.next();
  return done ? Number.POSITIVE_INFINITY : value;
}

/** Multiples of `step` below `below`. Multiplied rather than summed, because sums of decimals drift. */
export function* multiples(step: number, below: number): Generator<number> {
  for (let count = 0; count * step < below; count++) yield count * step;
}
