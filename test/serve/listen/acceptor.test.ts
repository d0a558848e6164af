import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { ConnectionAcceptor } from "#serve/listen/acceptor.ts";
import type { ConnectionAddresses } from "#serve/listen/address.ts";
import { chooseHttp2 } from "#serve/listen/http2-choice.ts";
import { Places } from "#serve/listen/places.ts";
import type { Transport } from "#serve/transport/transport.ts";
import { portSettings, realClock } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

function taker(t: TestContext) {
  const taken: string[] = [];
  const transport: Transport = {
    accept(socket: Socket) {
      taken.push(String(socket.read()));
      t.after(() => socket.destroy());
    },
    beginDrain() {},
    drain() {},
    cut() {},
  };
  return { taken, transport };
}

async function received(t: TestContext) {
  const http1 = taker(t);
  const own = taker(t);
  const library = taker(t);
  const makes = { sluice: own.transport, library: library.transport };
  const reception = new ConnectionAcceptor({
    settings: portSettings(),
    clock: realClock,
    http1: http1.transport,
    http2: chooseHttp2(makes, "tcp").transportFor,
    places: new Places(100),
    refused: (why) => assert.fail(why),
  });
  /** Remote and local address that the next connections pretend to have. */
  let seeming: ConnectionAddresses = {};
  const server = createServer((socket) => {
    for (const [name, value] of Object.entries(seeming)) {
      Object.defineProperty(socket, name, { value });
    }
    reception.accept(socket);
  }).listen(0);
  t.after(() => server.close());
  t.after(() => reception.destroyAll());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const say = async (host: string, text: string, as: ConnectionAddresses = {}) => {
    seeming = as;
    const accepted = once(server, "connection");
    const socket = connect({ host, port });
    t.after(() => socket.destroy());
    socket.write(text);
    await accepted;
  };
  return { say, http1: http1.taken, own: own.taken, library: library.taken };
}

test("gives HTTP/2 from loopback to Sluice's transport, over IPv4 and IPv6", async (t) => {
  const { say, own, library, http1 } = await received(t);
  for (const host of ["127.0.0.1", "::1"]) await say(host, PREFACE);
  await until("both", () => own.length === 2);
  assert.deepEqual(own, [PREFACE, PREFACE]);
  await say("127.0.0.1", "GET / HTTP/1.1\r\n\r\n");
  await until("HTTP/1.1", () => http1.length === 1);
  assert.deepEqual(library, []);
});

test("gives HTTP/2 with a remote address at either end to the library", async (t) => {
  const { say, own, library, http1 } = await received(t);
  const strange: readonly ConnectionAddresses[] = [
    { remoteAddress: "192.0.2.7" },
    { remoteAddress: "::ffff:192.0.2.7", localAddress: "::ffff:192.0.2.1" },
    { remoteAddress: "2001:db8::7", localAddress: "2001:db8::1" },
    { localAddress: "192.0.2.1" },
  ];
  for (const ends of strange) await say("127.0.0.1", PREFACE, ends);
  await until("all", () => library.length === strange.length);
  assert.deepEqual(library, Array(strange.length).fill(PREFACE));
  assert.deepEqual(own, []);
  await say("127.0.0.1", "GET / HTTP/1.1\r\n\r\n", { remoteAddress: "192.0.2.7" });
  await until("HTTP/1.1", () => http1.length === 1);
});
