// Unary methods for tests of unary calls.

import assert from "node:assert/strict";
import type { Call, Method } from "#base/handler.ts";
import type { TestCall } from "./harness.ts";

export const message = Buffer.from("a message");

export const unary = (handle: Extract<Method, { kind: "unary" }>["handle"]): Method => ({
  kind: "unary",
  handle,
});

export const echo = unary((bytes) => bytes);

export const size = unary((bytes) => Buffer.from(String(bytes.length)));

/** A handler whose calls wait until the test resolves or rejects them. */
export function waiting() {
  const calls: (PromiseWithResolvers<Uint8Array> & { readonly call: Call })[] = [];
  const method = unary((_, call) => {
    const waits = { ...Promise.withResolvers<Uint8Array>(), call };
    calls.push(waits);
    return waits.promise;
  });
  const first = () => {
    assert.ok(calls[0]);
    return calls[0];
  };
  return { method, calls, first };
}

/** Asserts that nothing of a call is left behind. */
export function assertReleased({ stream }: TestCall, clock: { readonly alarms: number }): void {
  assert.ok(stream.localClosed);
  assert.deepEqual([stream.working, stream.held, clock.alarms], [false, 0, 0]);
}
