import assert from "node:assert/strict";
import { test } from "node:test";
import { Scope, type Speed } from "#base/scope.ts";

test("everything is stopped in reverse order, each once", async () => {
  const order: string[] = [];
  const scope = new Scope();
  for (const name of ["first", "second", "third"]) scope.add(name, () => void order.push(name));
  await Promise.all([scope.close("drain"), scope.close("drain")]);
  assert.deepEqual(order, ["third", "second", "first"]);
});

test("a stop that fails is reported, and the others still run", async () => {
  const failed: string[] = [];
  const order: string[] = [];
  const scope = new Scope((name) => failed.push(name));
  scope.add("first", () => void order.push("first"));
  scope.add("second", async () => {
    throw new Error("stuck");
  });
  await scope.close("drain");
  assert.deepEqual([order, failed], [["first"], ["second"]]);
});

test("a cut speeds up the drain in progress and cuts the stops that remain", async () => {
  const speeds: Record<string, Speed[]> = { first: [], second: [] };
  let release: () => void = () => undefined;
  const scope = new Scope();
  scope.add("first", (speed) => void speeds["first"]?.push(speed));
  scope.add("second", (speed) => {
    speeds["second"]?.push(speed);
    if (speed === "cut") release();
    return new Promise<void>((resolve) => {
      if (speed === "drain") release = resolve;
      else resolve();
    });
  });
  const drained = scope.close("drain");
  await scope.close("cut");
  await drained;
  assert.deepEqual(speeds, { first: ["cut"], second: ["drain", "cut"] });
});
