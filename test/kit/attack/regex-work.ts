// Counts what the engines of regular expressions do, in calls of methods inside the library, so that tests need no clock.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { RE2JS } from "re2js";

interface Methods {
  // biome-ignore lint/suspicious/noExplicitAny: methods of the library, whose types it does not publish
  [name: string]: any;
}

export interface RegexWork {
  /** States of automata that were made, each of which takes up to as many steps as its program has instructions. */
  states: number;
  /** Instructions that were looked at, some of them more than once. */
  visits: number;
}

/** Counts the work of this process until the test ends. */
export function countRegexWork(t: TestContext): RegexWork {
  const counted = { states: 0, visits: 0 };
  const { dfa, prog } = RE2JS.compile("a").re2();
  const count = (like: object, method: string, what: keyof RegexWork) => {
    const methods: Methods = Object.getPrototypeOf(like);
    const original = methods[method];
    assert.equal(typeof original, "function", `the library has no ${method}`);
    methods[method] = function (...args: unknown[]) {
      counted[what] += 1;
      return original.apply(this, args);
    };
    t.after(() => {
      methods[method] = original;
    });
  };
  count(dfa, "makeState", "states");
  count(prog, "getInst", "visits");
  count(prog.inst[0], "matchRune", "visits");
  return counted;
}
