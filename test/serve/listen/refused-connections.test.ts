// Connections that are closed before they could send a request: each is counted once, by reason.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { MAX_FIRST_SETTINGS } from "#h2/handshake.ts";
import { FIRST_REQUEST_WITHIN_MS } from "#serve/listen/acceptor.ts";
import { frame, HEADERS, PREFACE, SETTINGS, settings } from "../../kit/clients/h2.ts";
import { fakeClock } from "../../kit/clock.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { memoryMeter, type Overrides, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const LIMIT_MS = 5_000;
const NOTHING = Buffer.alloc(0);

async function refusing(t: TestContext, over: Overrides = {}, maxConnections = 100) {
  const { meter, refused, faults, http } = memoryMeter();
  const clock = fakeClock();
  const times = { grpc: { connection_timeout: LIMIT_MS }, http: { read_header_timeout: LIMIT_MS } };
  const settings = { ...times, ...over };
  const port = await testPort(t, { meter, clock, settings, maxConnections });
  const where = { host: port.host, port: port.port };
  const ready = (socket: Socket, event: string) => {
    t.after(() => socket.destroy());
    socket.on("error", () => undefined);
    socket.resume();
    return new Promise<Socket>((resolve) => socket.once(event, () => resolve(socket)));
  };
  return {
    port,
    clock,
    refused,
    faults,
    http,
    dial: () => ready(connect(where), "connect"),
    dialTls: (options: ConnectionOptions) =>
      ready(connectTls({ ...where, ...options }), "secureConnect"),
  };
}

type Refusing = Awaited<ReturnType<typeof refusing>>;

const ended = (socket: Socket) =>
  until("the connection ends", () => socket.closed || socket.readableEnded);

/** Waits until the port has processed everything sent to it before. */
async function settled({ dial }: Refusing): Promise<void> {
  const socket = await dial();
  socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  await ended(socket);
}

for (const [how, bytes, why] of [
  ["nothing", NOTHING, "slow_first_bytes"],
  ["too little to tell the protocol", PREFACE.subarray(0, 2), "slow_first_bytes"],
  ["half a preface", PREFACE.subarray(0, 10), "slow_preface"],
  ["a preface without SETTINGS", PREFACE, "slow_preface"],
  ["half its SETTINGS", Buffer.concat([PREFACE, settings([3, 1])]).subarray(0, -1), "slow_preface"],
] as const) {
  test(`closes a connection that sends ${how} and then waits, as ${why}`, async (t) => {
    const server = await refusing(t);
    const socket = await server.dial();
    if (bytes.length > 0) socket.write(bytes);
    await settled(server);
    server.clock.advance(LIMIT_MS - 1);
    assert.deepEqual(server.refused, []);
    server.clock.advance(1);
    assert.deepEqual(server.refused, [why]);
    await ended(socket);
    assert.deepEqual(server.refused, [why], "once");
    assert.deepEqual(server.faults, []);
  });
}

const WRONG = Buffer.from("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
for (const [how, bytes] of [
  ["another preface", WRONG],
  ["a first frame that is not SETTINGS", Buffer.concat([PREFACE, frame(HEADERS, 5, 1)])],
  [
    "an oversized SETTINGS frame",
    Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, NOTHING, MAX_FIRST_SETTINGS + 6)]),
  ],
] as const) {
  test(`counts ${how} as a broken preface`, async (t) => {
    const { dial, refused } = await refusing(t);
    const socket = await dial();
    socket.write(bytes);
    await ended(socket);
    assert.deepEqual(refused, ["broken_preface"]);
  });
}

test("accepts the largest allowed first SETTINGS frame", async (t) => {
  const server = await refusing(t);
  const pairs = Array.from({ length: Math.floor(MAX_FIRST_SETTINGS / 6) }, () => [99, 1] as const);
  const socket = await server.dial();
  let received = 0;
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
  });
  socket.write(Buffer.concat([PREFACE, settings(...pairs)]));
  await until("the server's SETTINGS", () => received > 0);
  assert.deepEqual(server.refused, []);
});

for (const [how, leave] of [
  ["ends", (socket: Socket) => void socket.end()],
  ["is reset", (socket: Socket) => void socket.resetAndDestroy()],
] as const) {
  test(`counts a preface cut short by a connection that ${how} as broken`, async (t) => {
    const server = await refusing(t);
    const socket = await server.dial();
    socket.write(PREFACE.subarray(0, 10));
    await settled(server);
    leave(socket);
    await until("it is counted", () => server.refused.length > 0);
    assert.deepEqual(server.refused, ["broken_preface"]);
  });

  test(`does not count a silent connection that ${how}, as probes do`, async (t) => {
    const server = await refusing(t);
    leave(await server.dial());
    await settled(server);
    server.clock.advance(LIMIT_MS);
    assert.deepEqual(server.refused, []);
  });
}

test("a drain closes connections that have not sent a request, without counting them", async (t) => {
  const server = await refusing(t);
  const silent = await server.dial();
  const begun = await server.dial();
  begun.write(PREFACE.subarray(0, 10));
  await settled(server);
  server.clock.advance(FIRST_REQUEST_WITHIN_MS);
  const drained = server.port.drain();
  await Promise.all([ended(silent), ended(begun)]);
  silent.destroy();
  begun.destroy();
  await drained;
  assert.deepEqual(server.refused, []);
});

test("counts TLS on a cleartext port", async (t) => {
  const { dial, refused } = await refusing(t);
  const socket = await dial();
  socket.write(Buffer.of(0x16, 3, 1, 0, 5));
  await ended(socket);
  assert.deepEqual(refused, ["tls_on_cleartext"]);
});

test("counts connections beyond the limit", async (t) => {
  const { dial, refused } = await refusing(t, {}, 1);
  await dial();
  for (let more = 0; more < 3; more++) await ended(await dial());
  assert.deepEqual(refused, ["too_many", "too_many", "too_many"]);
});

test("counts refused TLS connections by reason", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const secure = { ca: ca.cert, servername: "localhost" };

  await t.test("cleartext", async (t) => {
    const { dial, refused } = await refusing(t, { tls });
    for (const bytes of ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", PREFACE]) {
      const socket = await dial();
      socket.write(bytes);
      await ended(socket);
    }
    assert.deepEqual(refused, ["cleartext_on_tls", "cleartext_on_tls"]);
  });

  await t.test("a handshake that fails, one that breaks off", async (t) => {
    const { dial, refused } = await refusing(t, { tls });
    const failing = await dial();
    failing.write(Buffer.concat([Buffer.of(0x16, 3, 1, 0, 5), Buffer.from("hello")]));
    await ended(failing);
    const leaving = await dial();
    leaving.end(Buffer.of(0x16, 3, 1, 0, 5));
    await until("both are counted", () => refused.length === 2);
    assert.deepEqual(refused, ["broken_tls_handshake", "broken_tls_handshake"]);
  });

  await t.test("a handshake that is not made in time", async (t) => {
    const { dial, refused } = await refusing(t, { tls, grpc: { connection_timeout: 50 } });
    const socket = await dial();
    socket.write(Buffer.of(0x16, 3, 1, 0, 5));
    await ended(socket);
    assert.deepEqual(refused, ["slow_tls_handshake"]);
  });

  await t.test("h2 that was agreed on and is not spoken, or not in time", async (t) => {
    const { dialTls, refused, clock } = await refusing(t, { tls });
    const other = await dialTls({ ...secure, ALPNProtocols: ["h2"] });
    other.write("GET / HTTP/1.1\r\n\r\n");
    await ended(other);
    assert.deepEqual(refused, ["broken_preface"]);
    const silent = await dialTls({ ...secure, ALPNProtocols: ["h2"] });
    await until("it is waited for", () => clock.alarms > 1);
    clock.advance(LIMIT_MS);
    await ended(silent);
    assert.deepEqual(refused, ["broken_preface", "slow_preface"]);
  });

  await t.test("h2 that was agreed on by who then leaves is not counted", async (t) => {
    const { dialTls, refused, port } = await refusing(t, { tls });
    const socket = await dialTls({ ...secure, ALPNProtocols: ["h2"] });
    socket.end();
    await ended(socket);
    await port.cut();
    assert.deepEqual(refused, []);
  });

  await t.test("a client of another name", async (t) => {
    const mutual = { ...tls, client_ca_file: ca.certFile, allowed_cn: "friend" };
    const { dialTls, refused } = await refusing(t, { tls: mutual });
    const { cert, key } = ca.issue("stranger");
    await ended(await dialTls({ ...secure, cert, key, ALPNProtocols: ["h2"] }));
    assert.deepEqual(refused, ["client_name"]);
  });
});
