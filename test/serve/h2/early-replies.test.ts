// Requests that are answered before they are whole: the sender gets the reply first and is asked to stop only
// when it has had time to read it, whatever it goes on to send.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  EARLY_REPLY_MS,
  MAX_EARLY_REPLIES,
  REMEMBERED_ENDS,
  STREAM_WINDOW,
} from "#serve/h2/limits.ts";
import type { Route } from "#serve/handler.ts";
import { child } from "../../kit/child.ts";
import { folderOf } from "../../kit/folder.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  FULL,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  message,
  PING,
  ping,
  RST_STREAM,
  reset,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/memory-peer.ts";
import { memoryMeter, testPort } from "../../kit/port.ts";
import { curl } from "../../tools/install.ts";

const SWEEP_MS = 1_000;
const [NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED] = [0, 1, 3, 5];
/** Answered UNIMPLEMENTED as soon as its head is there. */
const nowhere = block(grpcFields("/test.Nobody/Nothing"));
const say = block(grpcFields("/test.Early/Say"));
const service = {
  name: "test.Early",
  healthNames: [],
  methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
} as const;

/** A peer whose first call is there. */
async function caller(t: TestContext, head: Uint8Array) {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  await peer.send(headers(1, head));
  const sweeps = async (count: number) => {
    for (let done = 0; done < count; done++) {
      clock.advance(SWEEP_MS);
      await turns();
    }
  };
  return { peer, faults, sweeps };
}

const answered = (t: TestContext) => caller(t, nowhere);

const codes = (peer: MemoryPeer, stream = 1) =>
  peer.of(RST_STREAM, stream).map(({ payload }) => payload.readUInt32BE(0));

/** Streams with a whole reply. */
const replied = (peer: MemoryPeer) =>
  peer.frames.filter(({ type, flags }) => type === HEADERS && (flags & END_STREAM) !== 0).length;

test("a sender that goes on is asked to stop, once and not before its time", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  assert.equal(replied(peer), 1);
  assert.ok(EARLY_REPLY_MS < SWEEP_MS);
  await peer.send(data(1, Buffer.alloc(FULL)));
  await sweeps(1);
  assert.deepEqual(codes(peer), [], "it may have come just before the sweep");
  await peer.send(data(1, Buffer.alloc(FULL)));
  await sweeps(1);
  assert.deepEqual(codes(peer), [NO_ERROR]);
  // What was on its way.
  await peer.send(data(1, Buffer.alloc(FULL)), data(1, undefined, END_STREAM), ping());
  await sweeps(3);
  assert.deepEqual(codes(peer), [NO_ERROR]);
  assert.equal(peer.of(PING).length, 1, "the connection lives");
  assert.deepEqual(faults, []);
});

for (const [how, end] of [
  ["its body", data(1, undefined, END_STREAM)],
  ["trailers", headers(1, block([["x-sum", "1"]]), END_HEADERS | END_STREAM)],
  ["a reset", reset(1)],
] as const) {
  test(`a sender that ends by itself with ${how} is not asked to stop`, async (t) => {
    const { peer, faults, sweeps } = await answered(t);
    await peer.send(data(1, Buffer.alloc(FULL)), end);
    await sweeps(3);
    assert.deepEqual(codes(peer), []);
    assert.deepEqual(faults, []);
    await peer.send(data(1, Buffer.alloc(1)));
    assert.deepEqual(codes(peer), [STREAM_CLOSED], "what comes behind its end is a fault");
    assert.deepEqual(faults, ["stream"]);
  });
}

test("a sender that breaks the rules behind its reply is told so, and not asked to stop as well", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  await peer.send(windowUpdate(1, 0));
  assert.deepEqual(codes(peer), [PROTOCOL_ERROR]);
  // What was on its way.
  await peer.send(data(1, Buffer.alloc(1)));
  await sweeps(3);
  assert.deepEqual(codes(peer), [PROTOCOL_ERROR]);
  assert.deepEqual(faults, ["stream"]);
});

test("a stream whose sender ended behind its early reply is known to be closed", async (t) => {
  const { peer } = await answered(t);
  await peer.send(headers(3, nowhere), data(1, undefined, END_STREAM));
  await peer.send(headers(1, nowhere));
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), STREAM_CLOSED);
});

for (const [why, body] of [
  ["a broken message", Buffer.concat([message(Buffer.alloc(20), 2), Buffer.alloc(20)])],
  ["a second message", Buffer.concat([message(Buffer.alloc(20)), message(Buffer.alloc(20))])],
] as const) {
  test(`a sender whose last frame is refused half-way for ${why} has ended its request`, async (t) => {
    const { peer, faults, sweeps } = await caller(t, say);
    const frame = data(1, body, END_STREAM);
    await peer.send(frame.subarray(0, -2));
    assert.equal(replied(peer), 1, "the reply does not wait for the rest");
    await peer.send(frame.subarray(-2));
    await sweeps(3);
    assert.deepEqual(codes(peer), []);
    assert.deepEqual(faults, []);
    await peer.send(data(1, Buffer.alloc(1)));
    assert.deepEqual(codes(peer), [STREAM_CLOSED], "what comes behind its end is a fault");
  });
}

test("a sender gets no more room than it had", async (t) => {
  const { peer, faults } = await answered(t);
  const parts = Array.from({ length: STREAM_WINDOW / FULL }, () => data(1, Buffer.alloc(FULL)));
  for (const part of parts) await peer.send(part);
  assert.deepEqual(codes(peer), []);
  assert.deepEqual(faults, []);
  await peer.send(data(1, Buffer.alloc(1)), ping());
  assert.deepEqual(codes(peer), [FLOW_CONTROL_ERROR]);
  assert.deepEqual(faults, ["stream"]);
  assert.equal(peer.of(GOAWAY).length, 0);
});

test("few replies wait so at once, and their places are given back", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  const ids = Array.from({ length: 2 * MAX_EARLY_REPLIES }, (_, at) => 2 * at + 3);
  await peer.send(...ids.map((id) => headers(id, nowhere)));
  assert.equal(replied(peer), 1 + ids.length, "all are answered");
  const stopped = ids.filter((id) => codes(peer, id).length > 0);
  assert.deepEqual(stopped, ids.slice(MAX_EARLY_REPLIES - 1), "the first was there already");
  await sweeps(2);
  for (const id of [1, ...ids]) assert.deepEqual(codes(peer, id), [NO_ERROR]);
  for (const id of stopped) await peer.send(data(id, Buffer.alloc(1)));
  for (const id of stopped) assert.deepEqual(codes(peer, id), [NO_ERROR], "it was on its way");
  const next = (ids.at(-1) ?? 0) + 2;
  await peer.send(headers(next, nowhere));
  assert.deepEqual(codes(peer, next), []);
  assert.deepEqual(faults, []);
});

test("an early reply whose sender was stopped is one end among those that are remembered", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  await sweeps(2);
  let id = 3;
  for (let ended = 1; ended < REMEMBERED_ENDS; ) {
    const count = Math.min(MAX_EARLY_REPLIES, REMEMBERED_ENDS - ended);
    const ids = Array.from({ length: count }, (_, at) => id + 2 * at);
    await peer.send(...ids.map((each) => headers(each, nowhere)));
    await sweeps(2);
    ended += count;
    id += 2 * count;
  }
  await peer.send(data(1, Buffer.alloc(1)));
  assert.deepEqual(codes(peer), [NO_ERROR], "the oldest is still known");
  assert.deepEqual(faults, []);
  await peer.send(headers(id, nowhere));
  await sweeps(2);
  await peer.send(data(1, Buffer.alloc(1)));
  assert.deepEqual(codes(peer), [NO_ERROR, STREAM_CLOSED], "one more, and it is not");
});

/** Refuses by the head alone, by the announced length, and in the middle of what is sent. */
async function refusing(t: TestContext) {
  const { meter, faults } = memoryMeter();
  const take: Route = {
    ...{ method: "POST", path: "/take", about: "", body: "json", maxBody: 100_000 },
    handle: () => ({ status: 200, headers: {}, body: "taken" }),
  };
  const settings = { grpc: { transport: "own" } } as const;
  const { address } = await testPort(t, { routes: [take], settings, meter });
  return { url: `http://${address}`, faults };
}

const REFUSED = [
  { status: 404, path: "/nowhere", type: "application/json" },
  { status: 413, path: "/take", type: "application/json" },
  { status: 415, path: "/take", type: "text/plain" },
] as const;

test("curl reads its refusal while it uploads", async (t) => {
  const { url, faults } = await refusing(t);
  const file = join(folderOf(t), "body");
  writeFileSync(file, Buffer.alloc(3_000_000, "1"));
  for (const { status, path, type } of REFUSED) {
    for (const more of [[], ["--header", "content-length:"]]) {
      const run = child(t, curl(), [
        ...["--silent", "--show-error", "--http2-prior-knowledge", "--max-time", "20"],
        ...["--header", `content-type: ${type}`, "--data-binary", `@${file}`, ...more],
        ...["--write-out", "\n%{http_version} %{http_code}", url + path],
      ]);
      assert.equal(await run.ended, 0, run.out() + run.err());
      assert.match(run.out(), new RegExp(`^{"code".*}\n2 ${status}$`));
    }
  }
  assert.deepEqual(faults, []);
});

test("Node's own client reads its refusal while it uploads, and the connection goes on", async (t) => {
  const { url, faults } = await refusing(t);
  const session = connect(url);
  t.after(() => session.destroy());
  for (const { status, path, type } of [...REFUSED, ...REFUSED]) {
    const request = session.request({ ":method": "POST", ":path": path, "content-type": type });
    request.on("error", () => undefined);
    request.write(Buffer.alloc(400_000, "1"));
    const told = await new Promise((resolve) => {
      request.once("response", (head) => resolve(head[":status"]));
      request.once("close", () => resolve("nothing"));
    });
    assert.equal(told, status);
    request.close();
  }
  assert.deepEqual(faults, []);
});
