// Requests that are answered before they are complete: the client gets the reply first, and RST_STREAM NO_ERROR only
// after it has had time to read the reply, whatever else it sends.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Route } from "#base/handler.ts";
import {
  CLOSED_STREAM_HISTORY,
  EARLY_RESET_DELAY_MS,
  MAX_EARLY_REPLIES,
  STREAM_RECEIVE_WINDOW,
} from "#h2/limits.ts";
import { curl } from "../../../deploy/tools/install.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  MAX_FRAME_SIZE,
  message,
  PADDED,
  PING,
  ping,
  RST_STREAM,
  reset,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";
import { folderOf } from "../../kit/folder.ts";
import { child } from "../../kit/servers/child.ts";
import { memoryMeter, testPort } from "../../kit/sluice/port.ts";

const SWEEP_MS = 1_000;
const [NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED] = [0, 1, 3, 5];
/** A call that is answered with UNIMPLEMENTED as soon as its field block arrives. */
const nowhere = block(grpcFields("/test.Nobody/Nothing"));
const trailer = block([["x-checksum", "1"]]);
const say = block(grpcFields("/test.Early/Say"));
const service = {
  name: "test.Early",
  methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
} as const;

/** Connects a peer and sends its first call. */
async function connectWithCall(t: TestContext, head: Uint8Array) {
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

const answered = (t: TestContext) => connectWithCall(t, nowhere);

const codes = (peer: MemoryPeer, stream = 1) =>
  peer.of(RST_STREAM, stream).map(({ payload }) => payload.readUInt32BE(0));

/** Number of streams with a complete reply. */
const replied = (peer: MemoryPeer) =>
  peer.frames.filter(({ type, flags }) => type === HEADERS && (flags & END_STREAM) !== 0).length;

test("resets a stream whose client continues to send, once and not too early", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  assert.equal(replied(peer), 1);
  assert.ok(EARLY_RESET_DELAY_MS < SWEEP_MS);
  await peer.send(data(1, Buffer.alloc(MAX_FRAME_SIZE)));
  await sweeps(1);
  assert.deepEqual(codes(peer), [], "the reply may have been sent just before the sweep");
  await peer.send(data(1, Buffer.alloc(MAX_FRAME_SIZE)));
  await sweeps(1);
  assert.deepEqual(codes(peer), [NO_ERROR]);
  // Data that was in flight.
  await peer.send(data(1, Buffer.alloc(MAX_FRAME_SIZE)), data(1, undefined, END_STREAM), ping());
  await sweeps(3);
  assert.deepEqual(codes(peer), [NO_ERROR]);
  assert.equal(peer.of(PING).length, 1, "the connection has ended");
  assert.deepEqual(faults, []);
});

for (const [how, end] of [
  ["its body", data(1, undefined, END_STREAM)],
  ["trailers", headers(1, block([["x-sum", "1"]]), END_HEADERS | END_STREAM)],
  ["a reset", reset(1)],
] as const) {
  test(`does not reset a stream that its client ends with ${how}`, async (t) => {
    const { peer, faults, sweeps } = await answered(t);
    await peer.send(data(1, Buffer.alloc(MAX_FRAME_SIZE)), end);
    await sweeps(3);
    assert.deepEqual(codes(peer), []);
    assert.deepEqual(faults, []);
    await peer.send(data(1, Buffer.alloc(1)));
    assert.deepEqual(codes(peer), [STREAM_CLOSED], "frames after END_STREAM are a stream error");
    assert.deepEqual(faults, ["stream"]);
  });
}

test("answers a stream error after the early reply with its code, without a second reset", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  await peer.send(windowUpdate(1, 0));
  assert.deepEqual(codes(peer), [PROTOCOL_ERROR]);
  // Data that was in flight.
  await peer.send(data(1, Buffer.alloc(1)));
  await sweeps(3);
  assert.deepEqual(codes(peer), [PROTOCOL_ERROR]);
  assert.deepEqual(faults, ["stream"]);
});

test("treats a stream that its client ended after the early reply as closed", async (t) => {
  const { peer } = await answered(t);
  await peer.send(headers(3, nowhere), data(1, undefined, END_STREAM));
  await peer.send(headers(1, nowhere));
  assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), STREAM_CLOSED);
});

for (const [why, body] of [
  ["an invalid message", Buffer.concat([message(Buffer.alloc(20), 2), Buffer.alloc(20)])],
  ["a second message", Buffer.concat([message(Buffer.alloc(20)), message(Buffer.alloc(20))])],
] as const) {
  test(`a last frame refused halfway through for ${why} still ends the request`, async (t) => {
    const { peer, faults, sweeps } = await connectWithCall(t, say);
    const frame = data(1, body, END_STREAM);
    await peer.send(frame.subarray(0, -2));
    assert.equal(replied(peer), 1, "the reply waits for the rest");
    await peer.send(frame.subarray(-2));
    await sweeps(3);
    assert.deepEqual(codes(peer), []);
    assert.deepEqual(faults, []);
    await peer.send(data(1, Buffer.alloc(1)));
    assert.deepEqual(codes(peer), [STREAM_CLOSED], "frames after END_STREAM are a stream error");
  });
}

test("returns no flow-control credit after an early reply", async (t) => {
  const { peer, faults } = await answered(t);
  const parts = Array.from({ length: STREAM_RECEIVE_WINDOW / MAX_FRAME_SIZE }, () =>
    data(1, Buffer.alloc(MAX_FRAME_SIZE)),
  );
  for (const part of parts) await peer.send(part);
  assert.deepEqual(codes(peer), []);
  assert.deepEqual(faults, []);
  await peer.send(data(1, Buffer.alloc(1)), ping());
  assert.deepEqual(codes(peer), [FLOW_CONTROL_ERROR]);
  assert.deepEqual(faults, ["stream"]);
  assert.equal(peer.of(GOAWAY).length, 0);
});

test("delays the reset of a limited number of early replies at once, and frees their places", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  const ids = Array.from({ length: 2 * MAX_EARLY_REPLIES }, (_, at) => 2 * at + 3);
  await peer.send(...ids.map((id) => headers(id, nowhere)));
  assert.equal(replied(peer), 1 + ids.length, "every call is answered");
  const stopped = ids.filter((id) => codes(peer, id).length > 0);
  assert.deepEqual(
    stopped,
    ids.slice(MAX_EARLY_REPLIES - 1),
    "one place was taken by the first call",
  );
  await sweeps(2);
  for (const id of [1, ...ids]) assert.deepEqual(codes(peer, id), [NO_ERROR]);
  for (const id of stopped) await peer.send(data(id, Buffer.alloc(1)));
  for (const id of stopped)
    assert.deepEqual(codes(peer, id), [NO_ERROR], "data in flight is ignored");
  const next = (ids.at(-1) ?? 0) + 2;
  await peer.send(headers(next, nowhere));
  assert.deepEqual(codes(peer, next), []);
  assert.deepEqual(faults, []);
});

test("a stream reset after its early reply is among the closed streams that are remembered", async (t) => {
  const { peer, faults, sweeps } = await answered(t);
  await sweeps(2);
  let id = 3;
  for (let ended = 1; ended < CLOSED_STREAM_HISTORY; ) {
    const count = Math.min(MAX_EARLY_REPLIES, CLOSED_STREAM_HISTORY - ended);
    const ids = Array.from({ length: count }, (_, at) => id + 2 * at);
    await peer.send(...ids.map((each) => headers(each, nowhere)));
    await sweeps(2);
    ended += count;
    id += 2 * count;
  }
  await peer.send(data(1, Buffer.alloc(1)));
  assert.deepEqual(codes(peer), [NO_ERROR], "the oldest closed stream is still known");
  assert.deepEqual(faults, []);
  await peer.send(headers(id, nowhere));
  await sweeps(2);
  await peer.send(data(1, Buffer.alloc(1)));
  assert.deepEqual(codes(peer), [NO_ERROR, STREAM_CLOSED], "after one more it is forgotten");
});

/** A port that refuses a body by the header fields alone, by content-length, or in the middle of it. */
async function refusing(t: TestContext) {
  const { meter, faults } = memoryMeter();
  const take: Route = {
    method: "POST",
    path: "/take",
    about: "",
    body: "json",
    maxBody: 100_000,
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

test("curl reads its refusal while it uploads a body", async (t) => {
  const { url, faults } = await refusing(t);
  const file = join(folderOf(t), "body");
  writeFileSync(file, Buffer.alloc(3_000_000, "1"));
  for (const { status, path, type } of REFUSED) {
    for (const more of [[], ["--header", "content-length:"]]) {
      const run = child(t, curl(), [
        "--silent",
        "--show-error",
        "--http2-prior-knowledge",
        "--max-time",
        "20",
        "--header",
        `content-type: ${type}`,
        "--data-binary",
        `@${file}`,
        ...more,
        "--write-out",
        "\n%{http_version} %{http_code}",
        url + path,
      ]);
      assert.equal(await run.ended, 0, run.out() + run.err());
      assert.match(run.out(), new RegExp(`^{"code".*}\n2 ${status}$`));
    }
  }
  assert.deepEqual(faults, []);
});

test("Node's client reads its refusal while it uploads a body, and its connection stays open", async (t) => {
  const { url, faults } = await refusing(t);
  const session = connect(url);
  t.after(() => session.destroy());
  for (const { status, path, type } of [...REFUSED, ...REFUSED]) {
    const request = session.request({ ":method": "POST", ":path": path, "content-type": type });
    request.on("error", () => undefined);
    request.write(Buffer.alloc(400_000, "1"));
    const received = await new Promise((resolve) => {
      request.once("response", (head) => resolve(head[":status"]));
      request.once("close", () => resolve("nothing"));
    });
    assert.equal(received, status);
    request.close();
  }
  assert.deepEqual(faults, []);
});

test("a body longer than announced breaks a stream that has its reply", async (t) => {
  const announced = (length: number) =>
    block([...grpcFields("/test.Nobody/Nothing"), ["content-length", String(length)]]);
  const wrong: readonly (readonly [what: string, length: number, frames: readonly Uint8Array[]])[] =
    [
      ["longer, in one frame", 1, [data(1, Buffer.from("four"), END_STREAM)]],
      ["longer, before its end", 3, [data(1, Buffer.from("four"))]],
      ["longer, in two frames", 5, [data(1, Buffer.from("four")), data(1, Buffer.from("four"))]],
    ];
  for (const [what, length, frames] of wrong) {
    const { peer, faults } = await connectWithCall(t, announced(length));
    assert.equal(replied(peer), 1, what);
    await peer.send(...frames, ping());
    assert.deepEqual(codes(peer), [PROTOCOL_ERROR], what);
    assert.deepEqual(faults, ["malformed_request"], what);
    assert.equal(peer.of(PING).length, 1, what);
  }
  const right = [
    [data(1, Buffer.from("four")), data(1, Buffer.from("four"), END_STREAM)],
    [data(1, Buffer.alloc(8)), headers(1, trailer, END_HEADERS | END_STREAM)],
    // curl ends its upload when it has the reply.
    [data(1, Buffer.from("four"), END_STREAM)],
  ];
  for (const frames of right) {
    const { peer, faults, sweeps } = await connectWithCall(t, announced(8));
    await peer.send(...frames);
    await sweeps(3);
    assert.deepEqual(codes(peer), []);
    assert.deepEqual(faults, []);
  }
});

test("padding is no part of a body that is announced", async (t) => {
  const { peer, faults, sweeps } = await connectWithCall(
    t,
    block([...grpcFields("/test.Nobody/Nothing"), ["content-length", "4"]]),
  );
  await peer.send(data(1, Buffer.from("\x03four\0\0\0"), END_STREAM | PADDED));
  await sweeps(3);
  assert.deepEqual(codes(peer), []);
  assert.deepEqual(faults, []);
});

test("malformed trailers break a stream that has its reply", async (t) => {
  for (const last of [
    headers(1, trailer),
    headers(1, block([[":path", "/"]]), END_HEADERS | END_STREAM),
  ]) {
    const { peer, faults } = await answered(t);
    await peer.send(last);
    assert.deepEqual(codes(peer), [PROTOCOL_ERROR]);
    assert.deepEqual(faults, ["malformed_request"]);
  }
});
