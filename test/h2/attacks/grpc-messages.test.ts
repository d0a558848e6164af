// Messages that are larger than they look or never complete: compression bombs, false lengths, parts that the server
// must buffer, any number of empty messages.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import { type Bound, startTarget } from "../../kit/attack/measure.ts";
import {
  data,
  END_HEADERS,
  END_STREAM,
  grpcFields,
  grpcStatus,
  headers,
  httpFields,
  MAX_FRAME_SIZE,
  message,
  type RawPeer,
  repeated,
  settings,
  uint32,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";

const MB = 1024 * 1024;
const SAY = "/test.Target/Say";
const GATHER = "/test.Target/Gather";
const RESOURCE_EXHAUSTED = "8";
const INTERNAL = "13";
const LARGE_WINDOWS = Buffer.concat([settings([4, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
/** The limits of the whole pool, and as much again for the overhead of V8 and the kernel. */
const ALL = { held: 96 * MB, peak: 256 * MB };

/** A body in as many DATA frames as it needs. */
function body(id: number, bytes: Uint8Array, last = END_STREAM): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += MAX_FRAME_SIZE) {
    const end = at + MAX_FRAME_SIZE >= bytes.length ? last : 0;
    parts.push(data(id, bytes.subarray(at, at + MAX_FRAME_SIZE), end));
  }
  return Buffer.concat(parts);
}

/** Sends complete frames one at a time, waiting for a PING ACK in between, so that the server's windows suffice. */
async function paced(peer: RawPeer, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (peer.ended) return;
    await peer.send(piece);
    await peer.goawayOr(peer.pingRoundTrip());
  }
}

test("bounds the cost of messages that are larger than they look", async (t) => {
  const server = await startTarget(t);
  const zeros = Buffer.alloc(64 * MB);
  const bombs = { gzip: gzipSync(zeros), deflate: deflateSync(zeros) };

  for (const encoding of ["gzip", "deflate"] as const) {
    for (const [method, path] of [
      ["a call", SAY],
      ["a stream", GATHER],
    ] as const) {
      await t.test(`${encoding} bomb of 64 MiB in ${method}`, async (t) => {
        const calls = 10;
        const head = block(grpcFields(path, ["grpc-encoding", encoding]));
        // Inflating up to the limit of 4 MiB costs a thousand calls; the whole bomb would cost sixteen times as much.
        const counted = { faults: { inflate: calls }, codes: { RESOURCE_EXHAUSTED: calls } };
        const bound = {
          frames: calls,
          callsPerFrame: 2_000,
          held: 24 * MB,
          peak: 128 * MB,
          ...counted,
        };
        await server.withstand(t, bound, async () => {
          const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
          const ids = Array.from({ length: calls }, () => peer.nextStream());
          await Promise.all(
            ids.map(async (id) => {
              await peer.send(headers(id, head), body(id, message(bombs[encoding], 1)));
              const outcome = await peer.outcome(id);
              assert.equal(grpcStatus(outcome), RESOURCE_EXHAUSTED, peer.describeFrames());
            }),
          );
          assert.equal(await peer.unary(SAY), "0");
        });
      });
    }
  }

  for (const [how, made] of [
    ["that is not gzip", Buffer.from("this is no gzip")],
    ["that is truncated", gzipSync(Buffer.alloc(1_000)).subarray(0, 15)],
    ["with trailing bytes", Buffer.concat([gzipSync(Buffer.alloc(10)), Buffer.alloc(10, 1)])],
  ] as const) {
    await t.test(`gzip ${how}`, async (t) => {
      const counted = { faults: { inflate: 1 }, codes: { INTERNAL: 1 } };
      await server.withstand(t, { frames: 1, callsPerFrame: 500, ...counted }, async () => {
        const peer = await server.peer(t);
        const head = block(grpcFields(SAY, ["grpc-encoding", "gzip"]));
        const id = peer.nextStream();
        await peer.send(headers(id, head), body(id, message(made, 1)));
        const status = grpcStatus(await peer.outcome(id));
        assert.equal(status, INTERNAL, peer.describeFrames());
      });
    });
  }

  await t.test("an announced length of 4 GiB", async (t) => {
    const calls = 500;
    const bound = { frames: 2 * calls, codes: { RESOURCE_EXHAUSTED: calls } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t, { initialFrames: LARGE_WINDOWS });
      const lie = Buffer.concat([Buffer.of(0), uint32(2 ** 32 - 1)]);
      const head = block(grpcFields(SAY));
      await peer.send(
        peer.onNewStreams(calls, (id) => Buffer.concat([headers(id, head), data(id, lie)])),
      );
      assert.equal(
        grpcStatus(await peer.outcome(peer.lastStream)),
        RESOURCE_EXHAUSTED,
        peer.describeFrames(),
      );
    });
  });

  await t.test("announced lengths of 4 MiB allocate no memory", async (t) => {
    const calls = 900;
    const bound = { frames: 2 * calls, held: 16 * MB, peak: 64 * MB };
    const cost = await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const lie = Buffer.concat([Buffer.of(0), uint32(4 * MB), Buffer.of(1)]);
      const head = block(grpcFields(SAY));
      await peer.send(
        peer.onNewStreams(calls, (id) => Buffer.concat([headers(id, head), data(id, lie)])),
      );
      await peer.pingRoundTrip();
    });
    assert.deepEqual(cost.faults, {}, "a fault was counted before read_timeout");
  });
});

test("bounds the memory of messages that must be buffered", async (t) => {
  const server = await startTarget(t, { settings: { http: { read_timeout: 600_000 } } });

  /** Makes calls on several connections, each of which makes the server buffer bytes. */
  async function assertBuffered(
    t: TestContext,
    calls: number,
    make: (id: number) => Buffer,
    more: Partial<Bound> = { faults: { too_many_bytes: 1 } },
  ) {
    const connections = 6;
    const bytes = make(1).length * calls * connections;
    const cost = await server.withstand(t, { frames: bytes / 2_000, ...ALL, ...more }, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        for (let sent = 0; sent < calls; sent += 5) await paced(peer, [peer.onNewStreams(5, make)]);
      }
    });
    if (more.faults === undefined) assert.deepEqual(cost.faults, {});
  }
  const say = block(grpcFields(SAY));
  const ignore = block(grpcFields("/test.Target/Ignore"));
  const part = message(new Uint8Array(MB)).subarray(0, 200_000);

  await t.test("half-sent calls", (t) =>
    assertBuffered(t, 100, (id) => Buffer.concat([headers(id, say), body(id, part, 0)])),
  );

  await t.test("half-sent JSON bodies", (t) =>
    assertBuffered(t, 100, (id) => {
      const take = block(httpFields("POST", "/take"));
      return Buffer.concat([headers(id, take), body(id, Buffer.alloc(200_000, 0x20), 0)]);
    }),
  );

  await t.test("messages that a handler does not read", (t) =>
    assertBuffered(t, 100, (id) => {
      const messages = repeated(message(new Uint8Array(10_000)), 20);
      return Buffer.concat([headers(id, ignore), body(id, messages, 0)]);
    }),
  );

  await t.test("empty messages that a handler does not read", async (t) => {
    const [calls, messages] = [20, 50_000];
    const make = (id: number) =>
      Buffer.concat([headers(id, ignore), body(id, repeated(message(), messages), 0)]);
    // With an object for each message the peak would be at 120 to 270 MB.
    const worth = {
      frames: 6 * calls * messages,
      callsPerFrame: 0.05,
      waited: 500,
      peak: 128 * MB,
    };
    await assertBuffered(t, calls, make, { ...worth, faults: { too_many_bytes: 1 } });
  });

  await t.test("a buffered byte does not retain the read buffer that it arrived in", async (t) => {
    const unknown = repeated(Buffer.from([0, 0x3f, 0xf7, 0x42, 0, 0, 0, 0, 0]), 1);
    const padding = Buffer.concat([unknown, Buffer.alloc(0x3ff7), unknown, Buffer.alloc(0x3ff7)]);
    const make = (id: number) => Buffer.concat([headers(id, say), data(id, Buffer.of(0)), padding]);
    await assertBuffered(t, 600, make, {});
  });

  await t.test("a JSON body beyond its limit", async (t) => {
    const bound = { frames: 100, callsPerFrame: 5, held: 4 * MB, statuses: { 413: 1 } };
    await server.withstand(t, bound, async () => {
      const peer = await server.peer(t);
      const id = peer.nextStream();
      await peer.send(headers(id, block(httpFields("POST", "/take"))));
      await paced(peer, Array<Buffer>(100).fill(data(id, Buffer.alloc(MAX_FRAME_SIZE, 0x20))));
      const { head } = await peer.outcome(id);
      assert.equal(head[":status"], "413", peer.describeFrames());
    });
  });

  await t.test("any number of empty messages is allowed", async (t) => {
    const messages = 200_000;
    const cost = await server.withstand(
      t,
      { frames: messages, callsPerFrame: 0.2, held: 32 * MB, peak: 128 * MB },
      async () => {
        const peer = await server.peer(t);
        const id = peer.nextStream();
        await peer.send(headers(id, block(grpcFields(GATHER)), END_HEADERS));
        const some = repeated(message(), 10_000);
        await paced(peer, Array<Buffer>(messages / 10_000 - 1).fill(body(id, some, 0)));
        await peer.send(body(id, some));
        const { body: reply } = await peer.outcome(id);
        assert.equal(reply.subarray(5).toString("latin1"), String(messages), peer.describeFrames());
      },
    );
    assert.deepEqual(cost.faults, {});
  });
});
