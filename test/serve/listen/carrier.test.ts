import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transport } from "#serve/lifetime/transport.ts";
import type { Binding } from "#serve/listen/address.ts";
import { type Carriers, http2Of, makesFor } from "#serve/listen/carrier.ts";

const still = (): Transport => ({ inject() {}, leave() {}, drain() {}, cut() {} });
const own = still();
const library = still();
const near = { remoteAddress: "127.0.0.1", localAddress: "127.0.0.1" };
const far = { remoteAddress: "10.0.0.1", localAddress: "10.0.0.2" };

const every: Binding = { kind: "tcp", host: undefined, port: 0, ipv6Only: false };
const loopback: Binding = { ...every, host: "::1" };
const unix: Binding = { kind: "unix", path: "/run/sluice.sock" };

test("only what will carry something is made", () => {
  assert.equal(makesFor("auto", every), "both");
  for (const binding of [loopback, unix]) assert.equal(makesFor("auto", binding), "own");
  for (const binding of [every, loopback, unix]) {
    assert.equal(makesFor("own", binding), "own");
    assert.equal(makesFor("grpc-js", binding), "library");
  }
});

test("with both, local peers get the own transport and prefer HTTP/2, others the library and HTTP/1.1", () => {
  const http2 = http2Of({ own, library }, "tcp");
  assert.deepEqual(http2.transports, [own, library]);
  assert.equal(http2.carrierOf(near), own);
  assert.equal(http2.prefers(near), "http2");
  for (const ends of [far, {}, { ...near, localAddress: "10.0.0.2" }]) {
    assert.equal(http2.carrierOf(ends), library);
    assert.equal(http2.prefers(ends), "http1");
  }
  const socket = http2Of({ own, library }, "unix");
  assert.equal(socket.carrierOf({}), own);
  assert.equal(socket.prefers({}), "http2");
});

const alone: readonly (readonly [Carriers, Transport, string])[] = [
  [{ own, library: undefined }, own, "http2"],
  [{ own: undefined, library }, library, "http1"],
];
for (const [carriers, carrier, tongue] of alone) {
  test(`one alone carries everybody, and ${tongue} is preferred`, () => {
    for (const kind of ["tcp", "unix"] as const) {
      const http2 = http2Of(carriers, kind);
      assert.deepEqual(http2.transports, [carrier]);
      for (const ends of [near, far, {}]) {
        assert.equal(http2.carrierOf(ends), carrier);
        assert.equal(http2.prefers(ends), tongue);
      }
    }
  });
}
