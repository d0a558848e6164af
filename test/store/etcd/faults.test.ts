// Which failures of etcd are tried again, and which end the work of the caller.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Code, Fault } from "#base/fault.ts";
import { etcdFault, isTransient } from "#store/etcd/faults.ts";

const SERVER = { address: "etcd:2379" } as Parameters<typeof etcdFault>[0];

/** A call that failed as the gRPC library reports it. */
function failed(code: Code, details: string): Fault {
  return new Fault(code, `2 ${code}: ${details}`, { cause: { details } });
}

test("a server that is out of time is away, whatever code it gives that", () => {
  for (const details of ["context deadline exceeded", "context canceled"]) {
    const fault = failed("UNKNOWN", details);
    assert.ok(isTransient(fault), details);
    assert.equal(etcdFault(SERVER, fault).code, "UNAVAILABLE");
    assert.equal(etcdFault(SERVER, fault).message, `etcd at etcd:2379: ${details}`);
  }
  for (const fault of [
    failed("UNKNOWN", "auth: context deadline exceeded in a plugin"),
    failed("UNKNOWN", "something else"),
    failed("INVALID_ARGUMENT", "context canceled"),
  ]) {
    assert.equal(isTransient(fault), false, fault.message);
    assert.equal(etcdFault(SERVER, fault).code, fault.code);
  }
});
