import assert from "node:assert/strict";
import { test } from "node:test";
import { type Binding, isLocalBinding } from "#serve/listen/address.ts";

test("knows which listeners only this machine can reach", () => {
  const at = (host: string | undefined): Binding => ({
    kind: "tcp",
    host,
    port: 1,
    ipv6Only: false,
  });
  for (const host of ["127.0.0.1", "127.1.2.3", "::1"]) {
    assert.equal(isLocalBinding(at(host)), true, host);
  }
  for (const host of [undefined, "0.0.0.0", "::", "10.0.0.1", "fe80::1%lo"]) {
    assert.equal(isLocalBinding(at(host)), false, String(host));
  }
  assert.equal(isLocalBinding({ kind: "unix", path: "/run/sluice.sock" }), true);
});
