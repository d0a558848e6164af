// Work in steps: a generator that ends a step with each `yield`, so that its caller can do other work in between.

/** Takes all steps at once, and returns the result. */
export function finish<T>(steps: Generator<void, T>): T {
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
}
