// Connections themselves: too many at once, idle ones by the thousand, ones that come and go; and TLS that agrees
// on no protocol, or on another than it then speaks.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect } from "node:tls";
import {
  call,
  FULL,
  frame,
  grpcStatus,
  HEADERS,
  PREFACE,
  type RawPeer,
  settings,
} from "../../kit/h2.ts";
import { until } from "../../kit/port.ts";
import { authority, temporaryFolder } from "../../kit/tls.ts";
import { type Bound, victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const KB = 1024;
/** What a connection may cost, in honest calls. */
const CONNECTION = 50;
/** What a connection with its TLS handshake may cost. */
const HANDSHAKE = 400;
const TLS_TIMEOUT_MS = 1_000;

test("connections beyond the most at once are closed; those that are there are served", async (t) => {
  const most = 40;
  const server = await victim(t, { maxConnections: most });
  // Where two hundred ask for forty places.
  const bound = { frames: 5 * most, each: CONNECTION, refused: { too_many: 4 * most } };
  await server.under(t, bound, async () => {
    const peers = await Promise.all(Array.from({ length: 5 * most }, () => server.peer(t)));
    await until("the rest is closed", () => peers.filter(({ ended }) => !ended).length < most);
    const there = peers.filter(({ ended }) => !ended);
    // One place is the honest caller's.
    assert.equal(there.length, most - 1);
    for (const peer of there) assert.equal(await peer.unary(SAY), "0");
    for (const peer of there) peer.socket.destroy();
    await until("there is room again", async () => {
      const peer = await server.peer(t);
      const served = await Promise.race([peer.unary(SAY), peer.closed.then(() => "")]);
      peer.socket.destroy();
      return served === "0";
    });
  });
});

test("idle connections by the thousand", async (t) => {
  const server = await victim(t);
  const connections = 1_000;
  const bound = { frames: connections, each: CONNECTION, held: connections * 20 * KB };
  await server.under(t, bound, async () => {
    const peers: RawPeer[] = [];
    for (let made = 0; made < connections; made++) peers.push(await server.peer(t));
    await Promise.all(peers.map((peer) => peer.pong()));
  });
});

test("connections by the thousand, each with a frame that is almost whole", async (t) => {
  const server = await victim(t);
  const connections = 2_000;
  const almost = frame(HEADERS, 0, 1, Buffer.alloc(FULL)).subarray(0, -1);
  const held = connections * (20 * KB + FULL);
  const bound = { frames: connections, each: CONNECTION, held, peak: 160 * KB * KB };
  await server.under(t, bound, async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      await peer.send(almost);
    }
  });
});

test("connections that come and go, with a call or without", async (t) => {
  const server = await victim(t);
  const connections = 600;
  const cost = await server.under(t, { frames: connections, each: CONNECTION }, async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      if (made % 3 === 0) assert.equal(await peer.unary(SAY), "0");
      if (made % 3 === 1) await peer.send(settings());
      if (made % 2 === 0) peer.socket.destroy();
      else peer.socket.resetAndDestroy();
    }
    await until("all are gone", async () => {
      const { open } = await server.glance();
      return open.filter((kind) => kind === "TCPSocketWrap").length <= 1;
    });
  });
  assert.ok(cost.held < 4_000 * KB, "nothing is left of them");
});

test("TLS", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const secure = { ca: ca.cert, servername: "localhost" } satisfies ConnectionOptions;
  const settled = { tls, grpc: { connection_timeout: TLS_TIMEOUT_MS } };
  const server = await victim(t, { settings: settled }, { ...secure, ALPNProtocols: ["h2"] });
  const connections = 20;
  const worth = { frames: connections, each: HANDSHAKE };
  const dial = (ALPNProtocols?: string[]) =>
    server.peer(t, {
      tls: ALPNProtocols === undefined ? secure : { ...secure, ALPNProtocols },
      greeting: null,
    });
  /** Runs it on connections one after the other, beside an honest caller. */
  const each = (t: TestContext, counted: Partial<Bound>, one: () => Promise<void>) =>
    server.under(t, { ...worth, ...counted }, async () => {
      for (let made = 0; made < connections; made++) await one();
    });

  await t.test("with h2 agreed on is served", async (t) => {
    const cost = await each(t, { codes: { OK: connections } }, async () => {
      const peer = await dial(["h2"]);
      await peer.send(PREFACE, settings());
      assert.equal(await peer.unary(SAY), "0");
      peer.socket.destroy();
    });
    assert.deepEqual([cost.faults, cost.refused], [{}, {}]);
  });

  // HTTP/1.1 it is then, and the preface is no request of it.
  for (const [how, agreed] of [
    ["without ALPN is no HTTP/2, however it goes on", undefined],
    ["with http/1.1 agreed on is no HTTP/2 either", ["http/1.1"]],
  ] as const) {
    await t.test(how, async (t) => {
      const cost = await each(t, { statuses: { 400: connections } }, async () => {
        const peer = await dial(agreed === undefined ? undefined : [...agreed]);
        const said = text(peer);
        await peer.send(PREFACE, settings(), call(1, SAY));
        await peer.closed;
        assert.match(await said, /^HTTP\/1\.1 400 /, "no frame comes back");
      });
      assert.deepEqual(cost.codes, { OK: cost.honest }, "nothing else was served");
    });
  }

  await t.test("with h2 agreed on is no HTTP/1.1", async (t) => {
    const cost = await each(t, { refused: { broken_preface: connections } }, async () => {
      const peer = await dial(["h2"]);
      const said = text(peer);
      await peer.send(Buffer.from("GET /hello HTTP/1.1\r\nhost: x\r\n\r\n"));
      await peer.closed;
      assert.equal(await said, "");
    });
    assert.deepEqual(cost.statuses, {});
  });

  await t.test("that offers nothing we speak ends at the handshake", async (t) => {
    const [host, port] = server.address.split(":");
    const offer = { host: host ?? "", port: Number(port), ALPNProtocols: ["spdy/3", "h2c"] };
    await each(t, { refused: { broken_tls_handshake: connections } }, async () => {
      const socket = connect({ ...secure, ...offer });
      t.after(() => socket.destroy());
      const failed = await new Promise<Error & { readonly code?: string }>((resolve, reject) => {
        socket.once("error", resolve);
        socket.once("secureConnect", () => reject(new Error("the handshake went through")));
      });
      assert.match(String(failed.code), /NO_APPLICATION_PROTOCOL/);
    });
  });

  const hello = Buffer.of(0x16, 3, 1, 0, 5);
  await t.test("whose handshake is rubbish", async (t) => {
    await each(t, { refused: { broken_tls_handshake: connections } }, async () => {
      const peer = await server.peer(t, { greeting: null });
      await peer.send(hello, Buffer.from("hello"));
      await peer.closed;
    });
  });

  await t.test("whose handshake never ends, or whose greeting never comes", async (t) => {
    const slow = { slow_tls_handshake: connections, slow_preface: connections };
    const bound = { ...worth, frames: 2 * connections, held: 8 * KB * KB, refused: slow };
    await server.under(t, bound, async () => {
      const peers: RawPeer[] = [];
      for (let made = 0; made < connections; made++) {
        const silent = await server.peer(t, { greeting: null });
        await silent.send(hello);
        peers.push(silent, await dial(["h2"]));
      }
      await Promise.all(peers.map((peer) => peer.closed));
    });
  });

  await t.test("in the clear is refused", async (t) => {
    await each(t, { refused: { cleartext_on_tls: connections } }, async () => {
      const peer = await server.peer(t);
      await peer.closed;
      assert.equal(grpcStatus(peer.outcomeSoFar(1)), "");
    });
  });
});

/** All that a connection brings, as text. */
function text({ socket }: RawPeer): Promise<string> {
  let seen = "";
  socket.on("data", (chunk: Buffer) => {
    seen += chunk.toString("latin1");
  });
  return new Promise((resolve) => socket.once("close", () => resolve(seen)));
}
