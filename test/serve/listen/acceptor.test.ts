import assert from "node:assert/strict";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { ConnectionAcceptor } from "#serve/listen/acceptor.ts";
import { ConnectionSlots } from "#serve/listen/connection-slots.ts";
import type { Transport } from "#serve/transport.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
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
    hasCalled: () => true,
    closeIdle: () => false,
    beginDrain() {},
    drain() {},
    cut() {},
  };
  return { taken, transport };
}

async function received(t: TestContext) {
  const http1 = taker(t);
  const http2 = taker(t);
  const log = memoryLog("debug");
  const reception = new ConnectionAcceptor({
    settings: portSettings(),
    clock: realClock,
    http1: http1.transport,
    http2: http2.transport,
    slots: new ConnectionSlots(100),
    refused: (why) => assert.fail(why),
    mismatches: { record: (why) => assert.fail(why) },
    log,
  });
  const server = createServer((socket) => reception.accept(socket)).listen(0);
  t.after(() => server.close());
  t.after(() => reception.destroyAll());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const say = (host: string, text: string) => {
    const socket = connect({ host, port });
    t.after(() => socket.destroy());
    socket.write(text);
    return socket;
  };
  return { say, http1: http1.taken, http2: http2.taken, lines: log.lines };
}

test("hands HTTP/2 and HTTP/1.1 to their transports with all bytes, over IPv4 and IPv6", async (t) => {
  const { say, http2, http1 } = await received(t);
  for (const host of ["127.0.0.1", "::1"]) say(host, PREFACE);
  await until("both", () => http2.length === 2);
  assert.deepEqual(http2, [PREFACE, PREFACE]);
  say("127.0.0.1", "GET / HTTP/1.1\r\n\r\n");
  await until("HTTP/1.1", () => http1.length === 1);
  assert.deepEqual(http1, ["GET / HTTP/1.1\r\n\r\n"]);
});

test("at debug a connection is told when it is accepted and when it ends, but not for each request", async (t) => {
  const { say, http1, lines } = await received(t);
  const request = "GET / HTTP/1.1\r\n\r\n";
  const socket = say("127.0.0.1", request);
  await until("HTTP/1.1", () => http1.length === 1);
  const peer = `127.0.0.1:${socket.localPort}`;
  socket.write(request);
  socket.resetAndDestroy();
  await until("it has ended", () => lines.length > 1);
  const [accepted, ended] = lines.map(({ level, message, fields }) => ({ level, message, fields }));
  assert.deepEqual(accepted, {
    level: "debug",
    message: "a connection was accepted",
    fields: { peer, protocol: "http1", tls: false },
  });
  assert.deepEqual([ended?.level, ended?.message], ["debug", "a connection ended"]);
  const { read, error, ...fields } = ended?.fields ?? {};
  assert.ok(Number(read) >= request.length);
  assert.deepEqual([fields["peer"], fields["protocol"], fields["written"]], [peer, "http1", 0]);
  assert.equal(lines.length, 2);
});
