import assert from "node:assert/strict";
import { test } from "node:test";
import { decisionIds } from "#flow/check/decision-ids.ts";

test("ten thousand verdicts have as many ids, of twelve characters", () => {
  const ids = new Set(
    Array.from(
      { length: 10_000 },
      decisionIds(() => 0.999),
    ),
  );
  assert.equal(ids.size, 10_000);
  for (const id of ids) assert.match(id, /^[\w-]{12}$/);
});
