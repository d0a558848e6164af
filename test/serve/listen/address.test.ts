import assert from "node:assert/strict";
import { test } from "node:test";
import { type Binding, isLocalBinding, readAddress } from "#serve/listen/address.ts";

test("knows which listeners only this machine can reach", () => {
  const at = (host: string | undefined): Binding => ({
    kind: "tcp",
    key: "server.listener.addr",
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
  assert.equal(isLocalBinding({ ...at(undefined), kind: "unix", path: "/run/sluice.sock" }), true);
});

test("faults name the key of the address, which the settings may state", async () => {
  const settings = { addr: "no port", network: "tcp", keep_alive: 0 };
  const wanted = "must be host:port, :port or unix:/path";
  await assert.rejects(readAddress(settings), { message: `server.listener.addr ${wanted}` });
  const key = "otel.ports.debug_port";
  await assert.rejects(readAddress({ ...settings, key }), { message: `${key} ${wanted}` });
});

test("an address of another family names the setting that asks for this one", async () => {
  const settings = { addr: "127.0.0.1:1", network: "tcp6", keep_alive: 0 };
  await assert.rejects(readAddress(settings), {
    message:
      "server.listener.addr: wanted an IPv6 address, because server.listener.network is tcp6, got 127.0.0.1",
  });
});
