// Attacks with connections themselves: too many at once, thousands of idle ones, ones that open and close; and TLS
// connections that negotiate no protocol, or another one than they then speak.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect } from "node:tls";
import { type Bound, startTarget } from "../../kit/attack/measure.ts";
import {
  call,
  frame,
  grpcStatus,
  HEADERS,
  MAX_FRAME_SIZE,
  PREFACE,
  type RawPeer,
  settings,
} from "../../kit/clients/h2.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { until } from "../../kit/until.ts";

const SAY = "/test.Target/Say";
const KB = 1024;
/** CPU cost that a connection may have, in honest calls. */
const CONNECTION = 50;
/** CPU cost that a connection with its TLS handshake may have, in honest calls. */
const HANDSHAKE = 400;
const TLS_TIMEOUT_MS = 1_000;

test("closes connections beyond the limit and serves the others", async (t) => {
  const most = 40;
  const server = await startTarget(t, { maxConnections: most });
  // Two hundred connections compete for forty places.
  const bound = {
    frames: 5 * most,
    callsPerFrame: CONNECTION,
    refused: { too_many: 4 * most },
  };
  await server.withstand(t, bound, async () => {
    const peers = await Promise.all(Array.from({ length: 5 * most }, () => server.peer(t)));
    const open = () => peers.filter(({ ended }) => !ended);
    // One place belongs to the honest caller, and one in twenty is kept for addresses that hold few.
    const left = most - 1 - most / 20;
    await until("the others to be closed", () => open().length <= left);
    const there = open();
    assert.equal(there.length, left);
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

test("limits the cost of thousands of idle connections", async (t) => {
  const server = await startTarget(t);
  const connections = 1_000;
  const bound = { frames: connections, callsPerFrame: CONNECTION, held: connections * 20 * KB };
  await server.withstand(t, bound, async () => {
    const peers: RawPeer[] = [];
    for (let made = 0; made < connections; made++) peers.push(await server.peer(t));
    await Promise.all(peers.map((peer) => peer.pingRoundTrip()));
  });
});

test("limits the cost of thousands of connections with an almost complete frame", async (t) => {
  const server = await startTarget(t);
  const connections = 2_000;
  const almost = frame(HEADERS, 0, 1, Buffer.alloc(MAX_FRAME_SIZE)).subarray(0, -1);
  const held = connections * (20 * KB + MAX_FRAME_SIZE);
  const bound = { frames: connections, callsPerFrame: CONNECTION, held, peak: 160 * KB * KB };
  await server.withstand(t, bound, async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      await peer.send(almost);
    }
  });
});

test("releases connections that open and close, with or without a call", async (t) => {
  const server = await startTarget(t);
  const connections = 600;
  const openAndClose = async () => {
    for (let made = 0; made < connections; made++) {
      const peer = await server.peer(t);
      if (made % 3 === 0) assert.equal(await peer.unary(SAY), "0");
      if (made % 3 === 1) await peer.send(settings());
      if (made % 2 === 0) peer.socket.destroy();
      else peer.socket.resetAndDestroy();
    }
    await until("all connections to end", async () => {
      const { open } = await server.quickSnapshot();
      return open.filter((kind) => kind === "TCPSocketWrap").length <= 1;
    });
  };
  await server.withstand(t, { frames: connections, callsPerFrame: CONNECTION }, openAndClose);
  await server.releases(connections * KB, openAndClose);
});

test("limits the cost of TLS connections, whatever they negotiate", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const secure = { ca: ca.cert, servername: "localhost" } satisfies ConnectionOptions;
  const settled = { tls, grpc: { connection_timeout: TLS_TIMEOUT_MS } };
  const server = await startTarget(t, { settings: settled }, { ...secure, ALPNProtocols: ["h2"] });
  const connections = 20;
  const worth = { frames: connections, callsPerFrame: HANDSHAKE };
  const dial = (ALPNProtocols?: string[]) =>
    server.peer(t, {
      tls: ALPNProtocols === undefined ? secure : { ...secure, ALPNProtocols },
      initialFrames: null,
    });
  /** Runs `one` on connections one after another, beside an honest caller. */
  const each = (t: TestContext, counted: Partial<Bound>, one: () => Promise<void>) =>
    server.withstand(t, { ...worth, ...counted }, async () => {
      for (let made = 0; made < connections; made++) await one();
    });

  await t.test("serves a connection for which ALPN selected h2", async (t) => {
    const cost = await each(t, { codes: { OK: connections } }, async () => {
      const peer = await dial(["h2"]);
      await peer.send(PREFACE, settings());
      assert.equal(await peer.unary(SAY), "0");
      peer.socket.destroy();
    });
    assert.deepEqual([cost.faults, cost.refused], [{}, {}]);
  });

  // Such a connection speaks HTTP/1.1, and the HTTP/2 preface is not a valid request.
  for (const [how, agreed] of [
    ["does not speak HTTP/2 without ALPN", undefined],
    ["does not speak HTTP/2 where ALPN selected http/1.1", ["http/1.1"]],
  ] as const) {
    await t.test(how, async (t) => {
      const cost = await each(t, { statuses: { 400: connections } }, async () => {
        const peer = await dial(agreed === undefined ? undefined : [...agreed]);
        const said = text(peer);
        await peer.send(PREFACE, settings(), call(1, SAY));
        await peer.closed;
        assert.match(await said, /^HTTP\/1\.1 400 /, "the reply is not HTTP/1.1");
      });
      assert.deepEqual(cost.codes, { OK: cost.honest }, "something else was served");
    });
  }

  await t.test("does not speak HTTP/1.1 where ALPN selected h2", async (t) => {
    const cost = await each(t, { refused: { broken_preface: connections } }, async () => {
      const peer = await dial(["h2"]);
      const said = text(peer);
      await peer.send(Buffer.from("GET /hello HTTP/1.1\r\nhost: x\r\n\r\n"));
      await peer.closed;
      assert.equal(await said, "");
    });
    assert.deepEqual(cost.statuses, {});
  });

  await t.test("ends the handshake of a client that offers no known protocol", async (t) => {
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
  await t.test("closes a connection whose handshake is garbage", async (t) => {
    await each(t, { refused: { broken_tls_handshake: connections } }, async () => {
      const peer = await server.peer(t, { initialFrames: null });
      await peer.send(hello, Buffer.from("hello"));
      await peer.closed;
    });
  });

  await t.test(
    "closes connections whose handshake never ends or whose preface never arrives",
    async (t) => {
      const slow = { slow_tls_handshake: connections, slow_preface: connections };
      const bound = { ...worth, frames: 2 * connections, held: 8 * KB * KB, refused: slow };
      await server.withstand(t, bound, async () => {
        const peers: RawPeer[] = [];
        for (let made = 0; made < connections; made++) {
          const silent = await server.peer(t, { initialFrames: null });
          await silent.send(hello);
          peers.push(silent, await dial(["h2"]));
        }
        await Promise.all(peers.map((peer) => peer.closed));
      });
    },
  );

  await t.test("refuses cleartext", async (t) => {
    await each(t, { refused: { cleartext_on_tls: connections } }, async () => {
      const peer = await server.peer(t);
      await peer.closed;
      assert.equal(grpcStatus(peer.outcomeSoFar(1)), "");
    });
  });
});

/** Everything received on a connection until it closes, as text. */
function text({ socket }: RawPeer): Promise<string> {
  let received = "";
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
  });
  return new Promise((resolve) => socket.once("close", () => resolve(received)));
}
