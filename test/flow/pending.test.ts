// Answers that must wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pending } from "#flow/flow.ts";

test("calls back at once when the answer is already there", () => {
  const answered = new Pending<number>();
  answered.settle(7);
  const values: number[] = [];
  answered.whenSettled(
    (value) => void values.push(value),
    () => assert.fail(),
  );
  assert.deepEqual(values, [7]);
  const failed = new Pending<number>();
  failed.fail("gone");
  const causes: unknown[] = [];
  failed.whenSettled(
    () => assert.fail(),
    (cause) => void causes.push(cause),
  );
  assert.deepEqual(causes, ["gone"]);
});

test("settles once: what comes later is ignored", () => {
  const pending = new Pending<number>();
  const values: number[] = [];
  pending.whenSettled(
    (value) => void values.push(value),
    () => assert.fail(),
  );
  pending.settle(1);
  pending.settle(2);
  pending.fail("too late");
  assert.deepEqual(values, [1]);
});
