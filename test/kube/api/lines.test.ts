// The body of a watch is cut into lines, however its bytes arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { linesOf } from "#kube/api/lines.ts";

async function* bytes(...parts: readonly (string | Uint8Array)[]) {
  for (const part of parts) yield typeof part === "string" ? Buffer.from(part) : part;
}

async function all(parts: readonly (string | Uint8Array)[], most = 100): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of linesOf(bytes(...parts), most)) lines.push(line);
  return lines;
}

test("lines arrive whole wherever their bytes are cut", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string({ unit: "grapheme" })), fc.nat(6), async (texts, size) => {
      const wanted = texts.map((text) => text.replaceAll("\n", "")).filter((text) => text !== "");
      const body = Buffer.from(wanted.map((text) => `${text}\n`).join(""));
      const parts: Uint8Array[] = [];
      for (let at = 0; at < body.length; at += size + 1)
        parts.push(body.subarray(at, at + size + 1));
      assert.deepEqual(
        await all(parts, 10_000),
        wanted.map((text) => Buffer.from(text).toString()),
      );
    }),
  );
});

test("empty lines are no events", async () => {
  assert.deepEqual(await all(["\n\na\n\n", "\n", "b\n"]), ["a", "b"]);
});

test("a line that is too long is refused before it fills memory", async () => {
  assert.deepEqual(await all(["x".repeat(100), "\n"]), ["x".repeat(100)]);
  await assert.rejects(all(["x".repeat(60), "y".repeat(41)]), /more than 100 bytes/);
});

test("a body that ends within a line is a watch that broke off", async () => {
  await assert.rejects(all(["a\n", "half"]), /broke off within an event/);
});
