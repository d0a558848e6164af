import assert from "node:assert/strict";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { type TestContext, test } from "node:test";
import type { Transport } from "#serve/lifetime/transport.ts";
import { http2Of } from "#serve/listen/carrier.ts";
import { Reception } from "#serve/listen/reception.ts";
import { portSettings, realClock, until } from "../../kit/port.ts";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/** An address of this machine that is not loopback. */
const outer = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ internal, family }) => !internal && family === "IPv4")?.address;

function taker(t: TestContext) {
  const taken: string[] = [];
  const transport: Transport = {
    inject(socket: Socket) {
      taken.push(String(socket.read()));
      t.after(() => socket.destroy());
    },
    ...{ leave() {}, drain() {}, cut() {} },
  };
  return { taken, transport };
}

async function received(t: TestContext) {
  const http1 = taker(t);
  const own = taker(t);
  const library = taker(t);
  const makes = { own: own.transport, library: library.transport };
  const reception = new Reception({
    settings: portSettings(),
    clock: realClock,
    http1: http1.transport,
    http2: http2Of(makes, "tcp").carrierOf,
    refused: (why) => assert.fail(why),
  });
  const server = createServer((socket) => reception.receive(socket)).listen(0);
  t.after(() => server.close());
  t.after(() => reception.destroyAll());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const say = (host: string, text: string, localAddress?: string) => {
    const socket = connect({ host, port, ...(localAddress !== undefined && { localAddress }) });
    t.after(() => socket.destroy());
    socket.write(text);
  };
  return { say, http1: http1.taken, own: own.taken, library: library.taken };
}

test("HTTP/2 from loopback goes to the own transport, in both families", async (t) => {
  const { say, own, library, http1 } = await received(t);
  for (const host of ["127.0.0.1", "::1"]) say(host, PREFACE);
  await until("both", () => own.length === 2);
  assert.deepEqual(own, [PREFACE, PREFACE]);
  say("127.0.0.1", "GET / HTTP/1.1\r\n\r\n");
  await until("HTTP/1.1", () => http1.length === 1);
  assert.deepEqual(library, []);
});

const skip = outer === undefined ? "no interface beside loopback" : false;
test("an address of another interface at either end: the library", { skip }, async (t) => {
  const { say, own, library } = await received(t);
  say(outer ?? "", PREFACE);
  say("127.0.0.1", PREFACE, outer);
  await until("both", () => library.length === 2);
  assert.deepEqual(library, [PREFACE, PREFACE]);
  assert.deepEqual(own, []);
});
