import assert from "node:assert/strict";
import { test } from "node:test";
import type { Binding } from "#serve/listen/address.ts";
import {
  chooseHttp2,
  type Http2Transports,
  requiredTransports,
} from "#serve/listen/http2-choice.ts";
import type { Transport } from "#serve/transport/transport.ts";

const still = (): Transport => ({ accept() {}, beginDrain() {}, drain() {}, cut() {} });
const own = still();
const library = still();
const near = { remoteAddress: "127.0.0.1", localAddress: "127.0.0.1" };
const far = { remoteAddress: "10.0.0.1", localAddress: "10.0.0.2" };

const every: Binding = { kind: "tcp", host: undefined, port: 0, ipv6Only: false };
const loopback: Binding = { ...every, host: "::1" };
const unix: Binding = { kind: "unix", path: "/run/sluice.sock" };

test("creates only the transports that a listener may need", () => {
  assert.equal(requiredTransports("auto", every), "both");
  for (const binding of [loopback, unix])
    assert.equal(requiredTransports("auto", binding), "sluice");
  for (const binding of [every, loopback, unix]) {
    assert.equal(requiredTransports("own", binding), "sluice");
    assert.equal(requiredTransports("grpc-js", binding), "library");
  }
});

test("with both, gives local peers Sluice's transport and prefers HTTP/2, and remote peers the library and HTTP/1.1", () => {
  const http2 = chooseHttp2({ sluice: own, library }, "tcp");
  assert.deepEqual(http2.transports, [own, library]);
  assert.equal(http2.transportFor(near), own);
  assert.equal(http2.preferredProtocol(near), "http2");
  for (const ends of [far, {}, { ...near, localAddress: "10.0.0.2" }]) {
    assert.equal(http2.transportFor(ends), library);
    assert.equal(http2.preferredProtocol(ends), "http1");
  }
  const socket = chooseHttp2({ sluice: own, library }, "unix");
  assert.equal(socket.transportFor({}), own);
  assert.equal(socket.preferredProtocol({}), "http2");
});

const alone: readonly (readonly [Http2Transports, Transport, string])[] = [
  [{ sluice: own, library: undefined }, own, "http2"],
  [{ sluice: undefined, library }, library, "http1"],
];
for (const [carriers, carrier, protocol] of alone) {
  test(`a single transport carries all peers and prefers ${protocol}`, () => {
    for (const kind of ["tcp", "unix"] as const) {
      const http2 = chooseHttp2(carriers, kind);
      assert.deepEqual(http2.transports, [carrier]);
      for (const ends of [near, far, {}]) {
        assert.equal(http2.transportFor(ends), carrier);
        assert.equal(http2.preferredProtocol(ends), protocol);
      }
    }
  });
}
