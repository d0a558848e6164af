// Idle connections that fill the places of a port: a check from one of the addresses that opened them is answered all
// the same, because an idle connection of that address is closed to make room.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import type { Route } from "#base/handler.ts";
import {
  END_HEADERS,
  END_STREAM,
  headers,
  httpFields,
  PREFACE,
  RawPeer,
  SETTINGS,
  settings,
} from "../kit/clients/h2.ts";
import { block } from "../kit/clients/hpack.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { memoryMeter, readAll, type TestPort, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const PLACES = 200;
/** What addresses that hold many get of them: the rest is for others. */
const FOR_ALL = 190;
const ATTACKERS = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
const EACH = FOR_ALL / ATTACKERS.length;
const CHECKS = 20;

const REQUEST = "GET /check HTTP/1.1\r\nhost: x\r\n\r\n";
const H2_REQUEST = headers(1, block(httpFields("GET", "/check")), END_HEADERS | END_STREAM);

async function filled(
  t: TestContext,
  open: (to: { host: string; port: number; localAddress: string }) => Promise<unknown>,
  tls = {},
) {
  const { meter, refused } = memoryMeter();
  const waiting: (() => void)[] = [];
  const reply = { status: 200, headers: {}, body: "judged" };
  const routes: readonly Route[] = [
    { method: "GET", path: "/check", about: "", handle: () => reply },
    {
      method: "GET",
      path: "/slow",
      about: "",
      handle: () => new Promise((resolve) => waiting.push(() => resolve(reply))),
    },
  ];
  const port = await testPort(t, { routes, meter, maxConnections: PLACES, settings: { tls } });
  for (const localAddress of ATTACKERS) {
    const to = { host: port.host, port: port.port, localAddress };
    await Promise.all(Array.from({ length: EACH }, () => open(to)));
  }
  await until("all are accepted", () => port.connections().length === FOR_ALL);
  const release = () => {
    for (const each of waiting) each();
  };
  return { port, refused, waiting, release };
}

function dialFrom(t: TestContext, { host, port }: TestPort, localAddress: string): Socket {
  const socket = connect({ host, port, localAddress });
  t.after(() => socket.destroy());
  return socket;
}

async function open(t: TestContext, socket: Socket, ...bytes: readonly (string | Uint8Array)[]) {
  t.after(() => socket.destroy());
  socket.on("error", () => undefined);
  if (socket.connecting) await once(socket, "connect");
  for (const each of bytes) socket.write(each);
  return socket;
}

async function answered(t: TestContext, port: TestPort, from: string): Promise<void> {
  const socket = await open(
    t,
    dialFrom(t, port, from),
    REQUEST.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"),
  );
  assert.match(await readAll(socket), /^HTTP\/1\.1 200 .*judged$/s);
}

const firstReply = async (socket: Socket) => void (await once(socket, "data"));

type To = Parameters<Parameters<typeof filled>[1]>[0];
const idle: Readonly<Record<string, (t: TestContext, to: To) => Promise<unknown>>> = {
  "send nothing": (t, to) => open(t, connect(to)),
  "have sent half a request": async (t, to) => open(t, connect(to), "POST /check HTTP/1.1\r\n"),
  "have had one reply over HTTP/1.1": async (t, to) =>
    firstReply(await open(t, connect(to), REQUEST)),
  "have made no call over HTTP/2": async (t, to) =>
    firstReply(await open(t, connect(to), PREFACE, settings())),
  "have made a call over HTTP/2": async (t, to) =>
    firstReply(await open(t, connect(to), PREFACE, settings(), H2_REQUEST)),
};

for (const [how, one] of Object.entries(idle)) {
  test(`checks are answered beside as many connections as fit that ${how}, at every address`, async (t) => {
    const { port, refused } = await filled(t, (to) => one(t, to));
    for (let check = 0; check < CHECKS; check++) {
      for (const from of ATTACKERS) await answered(t, port, from);
    }
    assert.deepEqual([...new Set(refused)], ["too_many"], "those that are closed are counted");
  });
}

test("the same over TLS, before and after the handshake", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const secure = { ca: ca.cert, servername: "localhost" };
  let opened = 0;
  const { port } = await filled(
    t,
    async (to) => {
      const raw = await open(t, connect(to));
      if (opened++ % 2 === 0) return;
      const socket = await open(t, connectTls({ socket: raw, ...secure }), REQUEST);
      await firstReply(socket);
    },
    tls,
  );
  for (const from of ATTACKERS) {
    const raw = await open(t, dialFrom(t, port, from));
    const socket = await open(t, connectTls({ socket: raw, ...secure }), REQUEST);
    const [reply] = await once(socket, "data");
    assert.match(String(reply), /^HTTP\/1\.1 200 /);
  }
});

test("a connection that had a reply long ago goes before an older one that has just had another", async (t) => {
  const reply = { status: 200, headers: {}, body: "judged" };
  const routes: readonly Route[] = [
    { method: "GET", path: "/check", about: "", handle: () => reply },
  ];
  // One of 20 places is kept for addresses that hold few.
  const port = await testPort(t, { routes, maxConnections: 20 });
  const all: Socket[] = [];
  while (all.length < 19) {
    const socket = await open(t, dialFrom(t, port, "127.0.0.2"), REQUEST);
    await firstReply(socket);
    all.push(socket);
  }
  const [oldest = assert.fail()] = all;
  oldest.write(REQUEST);
  await firstReply(oldest);
  const closed = Promise.race(all.map((socket, at) => once(socket, "close").then(() => at)));
  await answered(t, port, "127.0.0.2");
  assert.equal(await closed, 1);
});

test("a connection with a call in progress is never closed for another one", async (t) => {
  const replies: Promise<string>[] = [];
  const { port, refused, waiting, release } = await filled(t, async (to) => {
    const socket = await open(
      t,
      connect(to),
      "GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    replies.push(readAll(socket));
  });
  await until("all are in progress", () => waiting.length === FOR_ALL);
  const late = await open(t, dialFrom(t, port, "127.0.0.2"), REQUEST);
  assert.equal(await readAll(late), "");
  assert.deepEqual(refused, ["too_many"]);
  release();
  for (const reply of await Promise.all(replies)) assert.match(reply, /judged$/);
});

test("HTTP/2 callers are told by a GOAWAY frame that their connection closes", async (t) => {
  const peers: RawPeer[] = [];
  const { port } = await filled(t, async (to) => {
    const peer = new RawPeer(await open(t, connect(to)));
    await peer.send(PREFACE, settings());
    await peer.frame("SETTINGS", ({ type }) => type === SETTINGS);
    peers.push(peer);
  });
  await answered(t, port, "127.0.0.2");
  await until("one is closed", () => peers.some(({ ended }) => ended));
  const [closed, ...others] = peers.filter(({ ended }) => ended);
  assert.deepEqual(others, []);
  assert.equal(await closed?.goaway(), "NO_ERROR");
});
