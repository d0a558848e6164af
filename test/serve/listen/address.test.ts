import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { type Binding, isLocalBinding, isLocalPeer } from "#serve/listen/address.ts";

const tcp = (remoteAddress?: string, localAddress?: string) =>
  isLocalPeer("tcp", { remoteAddress, localAddress });

for (const address of ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]) {
  test(`treats a peer at ${address} as local`, () => {
    assert.equal(tcp(address, address), true);
    assert.equal(tcp(address, "127.0.0.1"), true);
  });
}

for (const address of [
  "10.0.0.1",
  "128.0.0.1",
  "12.7.0.1",
  "0.0.0.0",
  "::",
  "::2",
  "fe80::1%eth0",
  "::ffff:10.0.0.1",
  "2001:db8::127.0.0.1",
  "::ffff:7f00:1:1",
  "",
]) {
  test(`treats a connection with ${JSON.stringify(address)} at either end as remote`, () => {
    assert.equal(tcp(address, address), false);
    assert.equal(tcp(address, "127.0.0.1"), false);
    assert.equal(tcp("127.0.0.1", address), false);
  });
}

test("treats a peer without an address as local on a Unix socket and as closed on TCP", () => {
  assert.equal(isLocalPeer("unix", {}), true);
  assert.equal(tcp(), false);
  assert.equal(tcp(undefined, "127.0.0.1"), false);
  assert.equal(tcp("127.0.0.1", undefined), false);
});

test("treats a real loopback connection as local until it is closed", async (t) => {
  const accepted = Promise.withResolvers<Socket>();
  const server = createServer((socket) => accepted.resolve(socket)).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const bound = server.address();
  assert.ok(bound !== null && typeof bound === "object");
  const client = connect({ host: "127.0.0.1", port: bound.port });
  t.after(() => client.destroy());
  const socket = await accepted.promise;
  assert.equal(isLocalPeer("tcp", socket), true);
  const closed = Promise.withResolvers<unknown>();
  socket.once("close", closed.resolve);
  socket.destroy();
  await closed.promise;
  assert.equal(isLocalPeer("tcp", socket), false);
});

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
