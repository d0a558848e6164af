// The context that `run` gives to the main function of a process, for tests that start a process inside their own.

import type { Scope } from "#base/scope.ts";
import { realClock } from "#runtime/life/clock.ts";
import type { ProcessContext } from "#runtime/life/run.ts";

/** The log is closed with the scope, as the last thing. `fail` throws unless the test passes its own. */
export function processContext(
  scope: Scope,
  changed: Partial<ProcessContext> = {},
): ProcessContext {
  return {
    argv: [],
    env: {},
    clock: realClock(),
    scope,
    stopping: new AbortController().signal,
    useLog: ({ close }) => scope.add("log", close),
    onReload: () => undefined,
    onCrash: () => undefined,
    fail(message, cause) {
      throw new Error(message, { cause });
    },
    ...changed,
  };
}
