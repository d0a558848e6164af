// Callers that leave before they take the reply to an accepted check: nobody can end such a flow, so its concurrency
// slots must be free again at once. Otherwise a few such callers occupy a limiter until `max_inflight_duration` ends.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import {
  data,
  END_STREAM,
  call as grpcCall,
  grpcFields,
  headers,
  httpFields,
  message,
  type RawPeer,
  rawPeer,
  reset,
} from "../kit/clients/h2.ts";
import { block } from "../kit/clients/hpack.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const SLOTS = 50;
const CALLS = 60;
const ROUNDS = 10;

const CHECK = "/aperture.flowcontrol.check.v1.FlowControlService/Check";
/** CheckRequest with `control_point: here`, and the same with `expect_end`. */
const PLAIN = Buffer.concat([Buffer.of(10, 4), Buffer.from("here")]);
const JSON_CHECK = "/v1/flowcontrol/checkhttp";
const checkBody = (expectEnd: boolean) =>
  JSON.stringify({
    control_point: "here",
    expect_end: expectEnd,
    request: { method: "GET", path: "/" },
  });

async function target(t: TestContext): Promise<string> {
  const { address } = await standalone(t, {
    policies: { "slots.yaml": slotsPolicy("here", SLOTS) },
  });
  return address;
}

/** Flows that were undone because nobody took their reply. */
async function undelivered(address: string): Promise<number> {
  return (await counted(address, "sluice_anomalies_total", "kind"))["undelivered"] ?? 0;
}

/** Runs the attack ten times; after each time, all slots are free. */
async function attack(
  t: TestContext,
  leave: (address: string, t: TestContext) => Promise<RawPeer | undefined>,
): Promise<void> {
  const address = await target(t);
  for (let round = 0; round < ROUNDS; round++) {
    const peer = await leave(address, t);
    await until(`round ${round}: all slots free`, async () => (await held(address)) === 0);
    peer?.socket.destroy();
  }
  assert.ok((await undelivered(address)) > 0);
}

const held = (address: string): Promise<number> => slotsHeld(address, "here");

/** A connection to `host:port` that is open. */
async function dialled(t: TestContext, address: string): Promise<Socket> {
  const [host = "", port = ""] = address.split(":");
  const socket = connect({ host, port: Number(port), noDelay: true });
  t.after(() => socket.destroy());
  socket.on("error", () => undefined);
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  return socket;
}

const post = (close: boolean, expectEnd = false): string => {
  const body = checkBody(expectEnd);
  return (
    `POST ${JSON_CHECK} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n` +
    `${close ? "connection: close\r\n" : ""}content-length: ${body.length}\r\n\r\n${body}`
  );
};

test("gRPC callers that reset their calls", async (t) => {
  await t.test("in the same write", (t) =>
    attack(t, async (address, t) => {
      const peer = await rawPeer(t, address);
      await peer.send(
        peer.onNewStreams(CALLS, (id) => Buffer.concat([grpcCall(id, CHECK, PLAIN), reset(id)])),
      );
      await peer.pingRoundTrip();
      return peer;
    }),
  );

  await t.test("in the next write, without reading", (t) =>
    attack(t, async (address, t) => {
      const peer = await rawPeer(t, address, { paused: true });
      const from = peer.lastStream + 2;
      await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, CHECK, PLAIN)));
      for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
      peer.listen();
      await peer.pingRoundTrip();
      return peer;
    }),
  );

  await t.test("after the reply was sent, before they acknowledge the PING behind it", (t) =>
    attack(t, async (address, t) => {
      const peer = await rawPeer(t, address);
      const from = peer.lastStream + 2;
      await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, CHECK, PLAIN)));
      await peer.outcome(peer.lastStream);
      for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
      return peer;
    }),
  );

  await t.test("in JSON", (t) =>
    attack(t, async (address, t) => {
      const fields = httpFields("POST", JSON_CHECK, ["content-type", "application/json"]);
      const peer = await rawPeer(t, address);
      await peer.send(
        peer.onNewStreams(CALLS, (id) =>
          Buffer.concat([
            headers(id, block(fields)),
            data(id, Buffer.from(checkBody(id % 4 === 1)), END_STREAM),
            reset(id),
          ]),
        ),
      );
      await peer.pingRoundTrip();
      return peer;
    }),
  );
});

test("gRPC callers whose connection ends", async (t) => {
  await t.test("with a TCP reset", (t) =>
    attack(t, async (address, t) => {
      const peer = await rawPeer(t, address);
      await peer.pingRoundTrip();
      await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, CHECK, PLAIN)));
      peer.socket.resetAndDestroy();
      return peer;
    }),
  );

  await t.test("in order, at once", (t) =>
    attack(t, async (address, t) => {
      const peer = await rawPeer(t, address);
      await peer.pingRoundTrip();
      await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, CHECK, PLAIN)));
      peer.socket.destroy();
      return peer;
    }),
  );
});

test("gRPC callers whose deadline passes before the reply", (t) =>
  attack(t, async (address, t) => {
    const peer = await rawPeer(t, address);
    const from = peer.lastStream + 2;
    // The deadlines are so short that some pass before the check and some during it. As every gRPC client does, this
    // one resets a call whose deadline has passed.
    const late = block(grpcFields(CHECK, ["grpc-timeout", "200u"]));
    await peer.send(
      peer.onNewStreams(CALLS, (id) =>
        Buffer.concat([headers(id, late), data(id, message(PLAIN), END_STREAM)]),
      ),
    );
    for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
    await peer.pingRoundTrip();
    return peer;
  }));

for (const [how, leave] of [
  ["close", (socket: Socket) => socket.destroy()],
  ["reset", (socket: Socket) => socket.resetAndDestroy()],
] as const) {
  for (const close of [false, true]) {
    const kind = close ? "Node's server" : "the fast path";
    test(`HTTP/1.1 callers that ${how} the connection, on ${kind}`, (t) =>
      attack(t, async (address, t) => {
        const sockets = await Promise.all(Array.from({ length: CALLS }, () => dialled(t, address)));
        // The server accepts connections in order, so this one comes after all of them.
        await held(address);
        for (const [at, socket] of sockets.entries())
          socket.write(post(close, at % 2 === 0), () => leave(socket));
        return undefined;
      }));
  }
}

test("callers that take their reply keep its slot", async (t) => {
  const address = await target(t);
  // Over HTTP/2, also when the connection is reset later.
  const peer = await rawPeer(t, address);
  const first = peer.nextStream();
  await peer.send(grpcCall(first, CHECK, PLAIN));
  const pinged = await peer.frame(
    "the PING after the reply",
    ({ type, flags }) => type === 6 && flags === 0,
  );
  await peer.send(acknowledged(pinged.payload), reset(first));
  await peer.pingRoundTrip();
  assert.equal(await held(address), 1);
  peer.socket.resetAndDestroy();
  await new Promise((resolve) => peer.socket.once("close", resolve));
  // Over HTTP/1.1, each way to end a connection in order.
  for (const close of [false, true]) {
    const socket = await dialled(t, address);
    socket.write(post(close));
    await new Promise((resolve) => socket.once("data", resolve));
    socket.end();
    await new Promise((resolve) => socket.once("close", resolve));
  }
  // A caller that closes its sending side only.
  const half = connect({
    port: Number(address.split(":")[1]),
    host: "127.0.0.1",
    allowHalfOpen: true,
  });
  half.end(post(false));
  const reply = await new Promise<string>((resolve) =>
    half.once("data", (text) => resolve(`${text}`)),
  );
  assert.match(reply, /^HTTP\/1.1 200/);
  await new Promise((resolve) => half.once("end", resolve).resume());
  half.destroy();
  assert.equal(await held(address), 4);
  // The request for this page comes after the end of the last connection.
  assert.equal(await undelivered(address), 0);
  assert.equal(await held(address), 4);
});

function acknowledged(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.of(0, 0, 8, 6, 1, 0, 0, 0, 0), payload]);
}
