// Work in steps: a generator that yields between its steps, so that its caller can do other work.

/** Runs all steps and returns the result. */
export function finish<T>(steps: Generator<void, T>): T {
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
}
