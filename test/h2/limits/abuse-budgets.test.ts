// Budgets for what a peer may do too often: how much at once, each second and with each honest call, to the exact
// frame. The numbers are promises and therefore repeated here; a peer at an honest pace never exhausts a budget.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Http2Fault } from "#base/server-meter.ts";
import {
  call,
  data,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  PING,
  ping,
  RST_STREAM,
  repeated,
  reset,
  settings,
  uint32,
  WINDOW_UPDATE,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer } from "../../kit/clients/memory-peer.ts";

const SECOND_MS = 1_000;
const SAY = "/test.Budgets/Say";
const INITIAL_WINDOW = 4;
const [FLOW_CONTROL_ERROR, CALM] = [3, 11];
/** The client's first SETTINGS frame is a control frame, too. */
const PREFACE_FRAMES = 1;

const CONTROL = { atOnce: 10_000, perSecond: 1_000, perCall: 10 };
const RESETS = { atOnce: 1_000, perSecond: 100, perCall: 1 };
/** Number of streams for which a new SETTINGS_INITIAL_WINDOW_SIZE costs one frame more. */
const STREAMS_PER_CONTROL = 16;

const service = {
  name: "test.Budgets",
  methods: {
    Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes },
    Wait: { kind: "unary", handle: () => new Promise<Uint8Array>(() => undefined) },
  },
} as const;

/** An incomplete call, so that no handler runs. */
const begin = (id: number) => headers(id, block(grpcFields(SAY)));
const codeOf = (peer: MemoryPeer) => peer.of(GOAWAY)[0]?.payload.readUInt32BE(4);

async function connected(t: TestContext) {
  const { clock, connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  let last = -1;
  const next = () => {
    last += 2;
    return last;
  };
  return { clock, peer, faults, next };
}

interface Budget {
  readonly what: string;
  readonly fault: Http2Fault;
  readonly budget: typeof CONTROL;
  /** Part of the budget used up by the connection preface. */
  readonly used: number;
  /** Bytes that draw one unit from the budget. */
  readonly one: (next: () => number) => Uint8Array;
}

const taken = (next: () => number) => {
  const id = next();
  return Buffer.concat([begin(id), reset(id)]);
};
const budgets: readonly Budget[] = [
  {
    what: "control frames",
    fault: "control_flood",
    budget: CONTROL,
    used: PREFACE_FRAMES,
    one: () => ping(),
  },
  { what: "cancelled calls", fault: "rapid_reset", budget: RESETS, used: 0, one: taken },
  {
    what: "broken calls",
    fault: "made_reset",
    budget: RESETS,
    used: 0,
    one: (next) => headers(next(), block([[":method", "GET"]]), END_HEADERS | END_STREAM),
  },
];

for (const { what, fault, budget, used, one } of budgets) {
  const drawing = async (t: TestContext) => {
    const { peer, faults, next, ...rest } = await connected(t);
    const draw = (times: number) => peer.send(...Array.from({ length: times }, () => one(next)));
    const passes = async (times: number, why: string) => {
      await draw(times);
      assert.equal(codeOf(peer), undefined, `${times}: ${why}`);
    };
    const ends = async (why: string) => {
      await draw(1);
      assert.equal(codeOf(peer), CALM, why);
      assert.equal(faults.at(-1), fault);
    };
    return { peer, next, passes, ends, ...rest };
  };

  test(`${what}: a burst of the budget's size passes, and one more is refused`, async (t) => {
    const { passes, ends } = await drawing(t);
    await passes(budget.atOnce - used, "the burst");
    await ends("one more");
  });

  test(`${what}: the budget refills with time`, async (t) => {
    const { clock, passes, ends } = await drawing(t);
    await passes(budget.atOnce - used, "the burst");
    clock.advance(SECOND_MS);
    await passes(budget.perSecond, "the refill of a second");
    await ends("one more than a second brings");
  });

  test(`${what}: the budget refills with answered calls`, async (t) => {
    const { peer, next, passes, ends } = await drawing(t);
    await passes(budget.atOnce - used, "the burst");
    const calls = 5;
    for (let made = 0; made < calls; made++) {
      const id = next();
      await peer.send(call(id, SAY));
      assert.equal(peer.of(HEADERS, id).length, 2, "the call is answered");
    }
    await passes(calls * budget.perCall, "the refill of honest calls");
    await ends("one more than they bring");
  });

  test(`${what}: the budget never exceeds its size, however many calls are answered`, async (t) => {
    const { peer, next, passes, ends } = await drawing(t);
    for (let made = 0; made < 20; made++) await peer.send(call(next(), SAY));
    await passes(budget.atOnce, "the burst");
    await ends("one more");
  });

  test(`${what}: the budget never exceeds its size, even after an hour`, async (t) => {
    const { clock, passes, ends } = await drawing(t);
    await passes(budget.atOnce - used, "the burst");
    for (let minute = 0; minute < 60; minute++) {
      clock.advance(60 * SECOND_MS);
      await passes(1, "at an honest pace");
    }
    clock.advance(60 * SECOND_MS);
    await passes(budget.atOnce, "the same burst again");
    await ends("one more");
  });
}

test("cancelled and broken calls draw on the same budget", async (t) => {
  const { peer, next } = await connected(t);
  const broken = () => headers(next(), block([[":method", "GET"]]), END_HEADERS | END_STREAM);
  const both = Array.from({ length: RESETS.atOnce / 2 }, () => [taken(next), broken()]);
  await peer.send(...both.flat());
  assert.equal(codeOf(peer), undefined);
  await peer.send(taken(next));
  assert.equal(codeOf(peer), CALM);
});

const malformed = block([[":method", "GET"]]);
for (const [how, request, resets] of [
  ["was answered", call(1, SAY), 0],
  ["is still in progress", call(1, "/test.Budgets/Wait"), 0],
  ["was malformed", headers(1, malformed, END_HEADERS | END_STREAM), 1],
] as const) {
  test(`each DATA frame after the end of a request that ${how} is a broken call`, async (t) => {
    const { peer, faults } = await connected(t);
    await peer.send(request);
    const left = RESETS.atOnce - resets;
    await peer.send(repeated(data(1, Buffer.of(0)), left));
    assert.equal(codeOf(peer), undefined);
    await peer.send(data(1, Buffer.of(0)));
    assert.equal(codeOf(peer), CALM);
    assert.deepEqual(faults.slice(resets), [...Array(left + 1).fill("stream"), "made_reset"]);
  });
}

test("DATA in transit on a stream that was reset before its request ended is no broken call", async (t) => {
  const { peer, faults } = await connected(t);
  await peer.send(headers(1, malformed, END_HEADERS), repeated(data(1, Buffer.of(0)), 2_000));
  assert.equal(codeOf(peer), undefined);
  assert.deepEqual(faults, ["malformed_request"]);
});

test("never ends the connection of a client that only sends keepalive PINGs", async (t) => {
  const { clock, peer, faults } = await connected(t);
  const pings = 20_000;
  // gRPC keepalive at the shortest interval that its clients use.
  for (let sent = 0; sent < pings; sent++) {
    clock.advance(10 * SECOND_MS);
    await peer.send(ping());
  }
  assert.equal(peer.of(PING).length, pings, "every PING is answered");
  assert.deepEqual(peer.of(GOAWAY), []);
  assert.deepEqual(faults, []);
});

test("a new SETTINGS_INITIAL_WINDOW_SIZE costs one frame, and one more for each 16 streams", async (t) => {
  const { clock, peer, faults, next } = await connected(t);
  const streams = 990;
  const worth = 1 + Math.ceil(streams / STREAMS_PER_CONTROL);
  await peer.send(...Array.from({ length: streams }, () => begin(next())));
  let window = 0;
  /** Number of window sizes accepted until the connection ends, at most `most`. */
  const resized = async (most: number) => {
    for (let done = 0; done < most; done++) {
      await peer.send(settings([INITIAL_WINDOW, ++window]));
      if (codeOf(peer) !== undefined) return done;
    }
    return most;
  };
  const atOnce = Math.floor((CONTROL.atOnce - PREFACE_FRAMES) / worth);
  assert.equal(await resized(atOnce), atOnce);
  clock.advance(SECOND_MS);
  assert.ok(CONTROL.perSecond / worth > 15, "enough for a client that measures its bandwidth");
  const rest = CONTROL.atOnce - PREFACE_FRAMES - atOnce * worth;
  const more = Math.floor((CONTROL.perSecond + rest) / worth);
  assert.equal(await resized(1_000), more);
  assert.equal(codeOf(peer), CALM);
  assert.deepEqual(faults, ["control_flood"]);
});

test("the same window size again costs one frame, however many streams there are", async (t) => {
  const { peer, faults, next } = await connected(t);
  await peer.send(...Array.from({ length: 990 }, () => begin(next())));
  const again = CONTROL.atOnce - PREFACE_FRAMES;
  await peer.send(repeated(settings([INITIAL_WINDOW, 65_535]), again));
  assert.equal(codeOf(peer), undefined);
  await peer.send(settings([INITIAL_WINDOW, 65_535]));
  assert.equal(codeOf(peer), CALM);
  assert.deepEqual(faults, ["control_flood"]);
});

const KB = 1024;
const STREAM_WINDOW = 256 * KB;
const CONNECTION_WINDOW = 1024 * KB;
const AT_ONCE = CONNECTION_WINDOW / STREAM_WINDOW;
const FRAME = 16 * KB;
/** As much as a stream's window allows of a message that is a little longer. */
const FILLED = Buffer.concat([
  Buffer.of(0),
  uint32(STREAM_WINDOW),
  Buffer.alloc(STREAM_WINDOW - 5),
]);
const filling = (id: number) =>
  Buffer.concat([
    begin(id),
    ...Array.from({ length: STREAM_WINDOW / FRAME }, (_, at) =>
      data(id, FILLED.subarray(at * FRAME, (at + 1) * FRAME)),
    ),
  ]);

test("DATA in one read beyond the connection window is a connection error, even within all stream windows", async (t) => {
  const { peer, faults, next } = await connected(t);
  await peer.send(...Array.from({ length: AT_ONCE + 1 }, () => filling(next())));
  assert.equal(codeOf(peer), FLOW_CONTROL_ERROR);
  assert.deepEqual(faults, ["flow_control"]);
});

test("returns the connection window after each read; memory is limited by what is buffered", async (t) => {
  const { peer, faults, next } = await connected(t);
  const greeted = peer.of(WINDOW_UPDATE).length;
  const reads = 7;
  for (let read = 1; read <= reads; read++) {
    await peer.send(...Array.from({ length: AT_ONCE }, () => filling(next())));
    const updates = peer.of(WINDOW_UPDATE).slice(greeted);
    assert.equal(updates.length, read);
    assert.equal(
      updates.at(-1)?.payload.readUInt32BE(0),
      CONNECTION_WINDOW,
      "the whole window is returned",
    );
  }
  assert.deepEqual(faults, [], "7 MiB are buffered");
  const beyond = Array.from({ length: AT_ONCE }, () => next());
  await peer.send(...beyond.map(filling));
  // As the calls themselves count too, 8 MiB do not suffice for all of them.
  assert.deepEqual([...new Set(faults)], ["too_many_bytes"]);
  const refused = [HEADERS, RST_STREAM].flatMap((type) =>
    beyond.filter((id) => peer.of(type, id).length > 0),
  );
  assert.equal(refused.length, faults.length, "each fault is a refused call");
  assert.equal(codeOf(peer), undefined, "the connection is open");
});
