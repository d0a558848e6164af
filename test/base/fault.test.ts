import assert from "node:assert/strict";
import { test } from "node:test";
import { CODES, Fault } from "#base/fault.ts";

test("a Fault stays unchanged; anything else becomes INTERNAL and reveals nothing", () => {
  const fault = new Fault("NOT_FOUND", "no such policy");
  assert.equal(Fault.from(fault), fault);
  const thrown = new Error("password is hunter2");
  const internal = Fault.from(thrown);
  assert.equal(internal.code, "INTERNAL");
  assert.equal(internal.cause, thrown);
  assert.doesNotMatch(internal.message, /hunter2/);
});

test("the HTTP status is that of the code unless a more specific one is given", () => {
  assert.equal(new Fault("INVALID_ARGUMENT", "no").http, 400);
  assert.equal(new Fault("INVALID_ARGUMENT", "no", { http: 415 }).http, 415);
});

test("codes have the numbers of gRPC, each once", () => {
  const numbers = Object.values(CODES).map(({ number }) => number);
  assert.deepEqual(
    numbers,
    Array.from({ length: 17 }, (_, number) => number),
  );
});
