// What happens at fixed times, several courses side by side. The next time is asked for when the last one is
// over: a long run has millions of them.

export interface Course {
  /** Rising, ms. */
  readonly times: Iterator<number>;
  act(at: number): void | Promise<void>;
}

/** At one moment the courses act in their order; `reach` is called first. */
export async function follow(
  courses: readonly Course[],
  reach: (at: number) => void,
): Promise<void> {
  const due = courses.map(({ times }) => next(times));
  for (;;) {
    const at = due.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
    if (at === Number.POSITIVE_INFINITY) return;
    reach(at);
    for (const [place, course] of courses.entries()) {
      if (due[place] !== at) continue;
      await course.act(at);
      due[place] = next(course.times);
    }
  }
}

function next(times: Iterator<number>): number {
  const { done, value } = times.next();
  return done ? Number.POSITIVE_INFINITY : value;
}

/** Multiplied, not added up: sums of decimals drift. */
export function* multiples(step: number, below: number): Generator<number> {
  for (let count = 0; count * step < below; count++) yield count * step;
}
