// Connections themselves: too many at once, idle ones by the thousand, ones that come and go; and TLS that agrees
// on no protocol, or on another than it then speaks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ConnectionOptions, connect } from "node:tls";
import { FULL, frame, grpcStatus, HEADERS, PREFACE, type RawPeer, settings } from "../../kit/h2.ts";
import { until } from "../../kit/port.ts";
import { authority, temporaryFolder } from "../../kit/tls.ts";
import { victim } from "../../kit/watch.ts";

const SAY = "/test.Victim/Say";
const KB = 1024;
/** What a connection may cost, in honest calls. */
const CONNECTION = 50;

test("connections beyond the most at once are closed; those that are there are served", async (t) => {
  const most = 40;
  const server = await victim(t, { maxConnections: most });
  const bound = { frames: 10 * most, each: CONNECTION };
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
  const server = await victim(t, { settings: { tls } });
  const secure = { ca: ca.cert, servername: "localhost" } satisfies ConnectionOptions;
  const dial = (ALPNProtocols?: string[]) =>
    server.peer(t, {
      tls: ALPNProtocols === undefined ? secure : { ...secure, ALPNProtocols },
      greeting: null,
    });

  await t.test("with h2 agreed on is served", async () => {
    const peer = await dial(["h2"]);
    await peer.send(PREFACE, settings());
    assert.equal(await peer.unary(SAY), "0");
  });

  await t.test("without ALPN is no HTTP/2, however it goes on", async (t) => {
    const peer = await dial();
    const said = text(peer);
    await peer.send(PREFACE, settings());
    await peer.closed;
    assert.doesNotMatch(await said, /^\0/, "no frame comes back");
    t.diagnostic((await said).slice(0, 40));
  });

  await t.test("with http/1.1 agreed on is no HTTP/2 either", async () => {
    const peer = await dial(["http/1.1"]);
    const said = text(peer);
    await peer.send(PREFACE, settings());
    await peer.closed;
    assert.doesNotMatch(await said, /^\0/, "no frame comes back");
  });

  await t.test("with h2 agreed on is no HTTP/1.1", async () => {
    const peer = await dial(["h2"]);
    const said = text(peer);
    await peer.send(Buffer.from("GET /hello HTTP/1.1\r\nhost: x\r\n\r\n"));
    await peer.closed;
    assert.doesNotMatch(await said, /^HTTP\/1/);
  });

  await t.test("that offers nothing we speak ends at the handshake", async (t) => {
    const [host, port] = server.address.split(":");
    const offer = { host: host ?? "", port: Number(port), ALPNProtocols: ["spdy/3", "h2c"] };
    const socket = connect({ ...secure, ...offer });
    t.after(() => socket.destroy());
    const failed = await new Promise<Error & { readonly code?: string }>((resolve, reject) => {
      socket.once("error", resolve);
      socket.once("secureConnect", () => reject(new Error("the handshake went through")));
    });
    assert.match(String(failed.code), /NO_APPLICATION_PROTOCOL/);
  });

  await t.test("in the clear is refused", async () => {
    const peer = await server.peer(t);
    await peer.closed;
    assert.equal(grpcStatus(peer.outcomeSoFar(1)), "");
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
