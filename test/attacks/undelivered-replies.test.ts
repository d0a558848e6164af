// Callers that leave before they take the reply to an accepted check: nobody can end such a flow, so its concurrency
// slots must be free again at once. Otherwise a few such callers occupy a limiter until `max_inflight_duration` ends.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import { realClock } from "#runtime/life/clock.ts";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import {
  data,
  END_STREAM,
  call as grpcCall,
  grpcFields,
  grpcStatus,
  headers,
  httpFields,
  message,
  type RawPeer,
  rawPeer,
  reset,
} from "../kit/clients/h2.ts";
import { block } from "../kit/clients/hpack.ts";
import { startRedis } from "../kit/servers/redis.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const SLOTS = 50;
const CALLS = 60;
const ROUNDS = 10;
const DEADLINE_EXCEEDED = "4";

/** Methods that check with `control_point: here`, some with `expect_end`: who has no reply cannot end the flow. */
const CHECKS = [
  ["/aperture.flowcontrol.check.v1.FlowControlService/Check", check(1)],
  ["/aperture.flowcontrol.check.v1.FlowControlService/Check", check(1, 5)],
  ["/aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP/CheckHTTP", check(4)],
  ["/aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP/CheckHTTP", check(4, 6)],
] satisfies readonly (readonly [string, Buffer])[];
/** A request by the numbers of its fields `control_point` and, where it is set, `expect_end`. */
function check(controlPoint: number, expectEnd?: number): Buffer {
  const end = expectEnd === undefined ? [] : [expectEnd << 3, 1];
  return Buffer.concat([
    Buffer.of((controlPoint << 3) | 2, 4),
    Buffer.from("here"),
    Buffer.of(...end),
  ]);
}
/** The check of the call with this stream id; calls take turns. */
function checkOf(id: number): [path: string, message: Buffer] {
  const [path = "", bytes = check(1)] = CHECKS[(id >> 1) % CHECKS.length] ?? [];
  return [path, bytes];
}
const JSON_CHECK = "/v1/flowcontrol/checkhttp";
const checkBody = (expectEnd: boolean) =>
  JSON.stringify({
    control_point: "here",
    expect_end: expectEnd,
    request: { method: "GET", path: "/" },
  });

/** The engines that count the slots: agents that share them in Redis wait for it before they reply. */
type Place = "in process" | "in Redis";

interface Target {
  readonly clock?: Clock;
  readonly place?: Place;
}

async function target(
  t: TestContext,
  { clock = realClock(), place = "in process" }: Target = {},
): Promise<string> {
  const { address } = await standalone(t, {
    clock,
    policies: { "slots.yaml": slotsPolicy("here", SLOTS) },
    env: place === "in process" ? {} : await sharedSlots(t),
  });
  return address;
}

async function sharedSlots(t: TestContext) {
  const { url } = await startRedis(t);
  return {
    SVC_AGENT_COUNTERS_ENGINE: "redis",
    SVC_AGENT_COUNTERS_REDIS_URL: url,
    SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "10s",
  };
}

/** Flows that were undone because nobody took their reply. */
async function undelivered(address: string): Promise<number> {
  return (await counted(address, "sluice_anomalies_total", "kind"))["undelivered"] ?? 0;
}

/** Flows whose callers left before they were judged, which waits for Redis. */
async function abandoned(address: string): Promise<number> {
  return (await counted(address, "sluice_anomalies_total", "kind"))["abandoned"] ?? 0;
}

/** Runs the attack ten times; after each time, all slots are free. */
async function attack(
  t: TestContext,
  leave: (address: string, t: TestContext) => Promise<RawPeer | undefined>,
  options?: Target,
): Promise<void> {
  const address = await target(t, options);
  for (let round = 0; round < ROUNDS; round++) {
    const peer = await leave(address, t);
    await until(`round ${round}: all slots free`, async () => (await held(address)) === 0);
    peer?.socket.destroy();
  }
  assert.ok((await undelivered(address)) + (await abandoned(address)) > 0);
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

/** A request to close the connection takes a check from the fast path. */
const serverOf = (close: boolean) => (close ? "Node's server" : "the fast path");

const post = (close: boolean, expectEnd = false): string => {
  const body = checkBody(expectEnd);
  return (
    `POST ${JSON_CHECK} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n` +
    `${close ? "connection: close\r\n" : ""}content-length: ${body.length}\r\n\r\n${body}`
  );
};

for (const place of ["in process", "in Redis"] as const) {
  test(`gRPC callers that reset their calls, slots ${place}`, async (t) => {
    await t.test("in the same write", (t) =>
      attack(
        t,
        async (address, t) => {
          const peer = await rawPeer(t, address);
          await peer.send(
            peer.onNewStreams(CALLS, (id) =>
              Buffer.concat([grpcCall(id, ...checkOf(id)), reset(id)]),
            ),
          );
          await peer.pingRoundTrip();
          return peer;
        },
        { place },
      ),
    );

    await t.test("in the next write, without reading", (t) =>
      attack(
        t,
        async (address, t) => {
          const peer = await rawPeer(t, address, { paused: true });
          const from = peer.lastStream + 2;
          await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, ...checkOf(id))));
          for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
          peer.listen();
          await peer.pingRoundTrip();
          return peer;
        },
        { place },
      ),
    );

    await t.test("after the reply was sent, before they acknowledge the PING behind it", (t) =>
      attack(
        t,
        async (address, t) => {
          const peer = await rawPeer(t, address);
          const from = peer.lastStream + 2;
          await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, ...checkOf(id))));
          await peer.outcome(peer.lastStream);
          for (let id = from; id <= peer.lastStream; id += 2) await peer.send(reset(id));
          return peer;
        },
        { place },
      ),
    );

    await t.test("in JSON", (t) =>
      attack(
        t,
        async (address, t) => {
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
        },
        { place },
      ),
    );
  });

  test(`gRPC callers whose connection ends, slots ${place}`, async (t) => {
    await t.test("with a TCP reset", (t) =>
      attack(
        t,
        async (address, t) => {
          const peer = await rawPeer(t, address);
          await peer.pingRoundTrip();
          await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, ...checkOf(id))));
          peer.socket.resetAndDestroy();
          return peer;
        },
        { place },
      ),
    );

    await t.test("in order, at once", (t) =>
      attack(
        t,
        async (address, t) => {
          const peer = await rawPeer(t, address);
          await peer.pingRoundTrip();
          await peer.send(peer.onNewStreams(CALLS, (id) => grpcCall(id, ...checkOf(id))));
          peer.socket.destroy();
          return peer;
        },
        { place },
      ),
    );
  });
}

/** A clock that goes on by a second whenever it is read, so that deadlines pass while a check is answered. */
function hurriedClock(): Clock {
  const clock = realClock();
  let ahead = 0;
  return {
    ...clock,
    now() {
      ahead += 1_000;
      return clock.now() + ahead;
    },
  };
}

// JSON callers have no deadline of their own: a plugin forwards the `grpc-timeout` of its client.
describe("gRPC callers whose deadline passes before the reply", () => {
  // The clock is read once when a call begins, once before it is checked, by the check itself, and before the reply.
  const timeout = ["grpc-timeout", "1500m"] as const;

  test("who reset their calls, as gRPC clients do", (t) =>
    attack(t, (address, t) => late(address, t, true), { clock: hurriedClock() }));

  test("who do not reset them", (t) =>
    attack(t, (address, t) => late(address, t, false), { clock: hurriedClock() }));

  async function late(address: string, t: TestContext, resets: boolean): Promise<RawPeer> {
    const peer = await rawPeer(t, address);
    const from = peer.lastStream + 2;
    await peer.send(
      peer.onNewStreams(CALLS, (id) => {
        const [path, bytes] = checkOf(id);
        const fields = block(grpcFields(path, timeout));
        return Buffer.concat([headers(id, fields), data(id, message(bytes), END_STREAM)]);
      }),
    );
    for (let id = from; id <= peer.lastStream; id += 2) {
      if (resets) await peer.send(reset(id));
      else assert.equal(grpcStatus(await peer.outcome(id)), DEADLINE_EXCEEDED);
    }
    await peer.pingRoundTrip();
    return peer;
  }
});

for (const [how, leave] of [
  ["close", (socket: Socket) => socket.destroy()],
  ["reset", (socket: Socket) => socket.resetAndDestroy()],
] as const) {
  for (const close of [false, true]) {
    test(`HTTP/1.1 callers that ${how} the connection, on ${serverOf(close)}`, (t) =>
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
  await peer.send(grpcCall(first, ...checkOf(first)));
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
