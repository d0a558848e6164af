// Messages that are larger than they look or never whole: compressed bombs, lengths that lie, parts that the
// server has to keep, messages of nothing in any number.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import {
  data,
  END_HEADERS,
  END_STREAM,
  FULL,
  grpcFields,
  grpcStatus,
  headers,
  httpFields,
  message,
  type RawPeer,
  repeated,
  settings,
  uint32,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type Bound, victim } from "../../kit/watch.ts";

const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
const GATHER = "/test.Victim/Gather";
const RESOURCE_EXHAUSTED = "8";
const INTERNAL = "13";
const WIDE = Buffer.concat([settings([4, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
/** Bounds of all peers together, and as much again for what V8 and the system make of it. */
const ALL = { held: 96 * MB, peak: 256 * MB };

/** A body in as many frames as it needs. */
function body(id: number, bytes: Uint8Array, last = END_STREAM): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += FULL) {
    const end = at + FULL >= bytes.length ? last : 0;
    parts.push(data(id, bytes.subarray(at, at + FULL), end));
  }
  return Buffer.concat(parts);
}

/** Sends whole frames as slowly as the server's windows want it: in turns, with an answer in between. */
async function paced(peer: RawPeer, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (peer.ended) return;
    await peer.send(piece);
    await peer.goawayOr(peer.pong());
  }
}

test("messages that are larger than they look", async (t) => {
  const server = await victim(t);
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
        // To inflate up to the bound of 4 MiB is worth a thousand calls; all of the bomb, sixteen times as much.
        const counted = { faults: { inflate: calls }, codes: { RESOURCE_EXHAUSTED: calls } };
        const bound = { frames: calls, each: 2_000, held: 24 * MB, peak: 128 * MB, ...counted };
        await server.under(t, bound, async () => {
          const peer = await server.peer(t, { greeting: WIDE });
          const ids = Array.from({ length: calls }, () => peer.next());
          await Promise.all(
            ids.map(async (id) => {
              await peer.send(headers(id, head), body(id, message(bombs[encoding], 1)));
              const outcome = await peer.outcome(id);
              assert.equal(grpcStatus(outcome), RESOURCE_EXHAUSTED, peer.told());
            }),
          );
          assert.equal(await peer.unary(SAY), "0");
        });
      });
    }
  }

  for (const [how, made] of [
    ["that is none", Buffer.from("this is no gzip")],
    ["that breaks off", gzipSync(Buffer.alloc(1_000)).subarray(0, 15)],
    ["with more behind it", Buffer.concat([gzipSync(Buffer.alloc(10)), Buffer.alloc(10, 1)])],
  ] as const) {
    await t.test(`gzip ${how}`, async (t) => {
      const counted = { faults: { inflate: 1 }, codes: { INTERNAL: 1 } };
      await server.under(t, { frames: 1, each: 500, ...counted }, async () => {
        const peer = await server.peer(t);
        const head = block(grpcFields(SAY, ["grpc-encoding", "gzip"]));
        const id = peer.next();
        await peer.send(headers(id, head), body(id, message(made, 1)));
        const status = grpcStatus(await peer.outcome(id));
        assert.equal(status, INTERNAL, peer.told());
      });
    });
  }

  await t.test("a length of 4 GiB that nobody sends", async (t) => {
    const calls = 500;
    const bound = { frames: 2 * calls, codes: { RESOURCE_EXHAUSTED: calls } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      const lie = Buffer.concat([Buffer.of(0), uint32(2 ** 32 - 1)]);
      const head = block(grpcFields(SAY));
      await peer.send(peer.each(calls, (id) => Buffer.concat([headers(id, head), data(id, lie)])));
      assert.equal(grpcStatus(await peer.outcome(peer.last)), RESOURCE_EXHAUSTED, peer.told());
    });
  });

  await t.test("lengths of 4 MiB that nobody sends are no reason to make room", async (t) => {
    const calls = 900;
    const bound = { frames: 2 * calls, held: 16 * MB, peak: 64 * MB };
    const cost = await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const lie = Buffer.concat([Buffer.of(0), uint32(4 * MB), Buffer.of(1)]);
      const head = block(grpcFields(SAY));
      await peer.send(peer.each(calls, (id) => Buffer.concat([headers(id, head), data(id, lie)])));
      await peer.pong();
    });
    assert.deepEqual(cost.faults, {}, "until they are late");
  });
});

test("messages that are kept", async (t) => {
  const server = await victim(t, { settings: { http: { read_timeout: 600_000 } } });

  /** Calls on several connections, each of which makes the server keep bytes. */
  async function kept(
    t: TestContext,
    calls: number,
    make: (id: number) => Buffer,
    more: Partial<Bound> = { faults: { too_many_bytes: 1 } },
  ) {
    const connections = 6;
    const bytes = make(1).length * calls * connections;
    const cost = await server.under(t, { frames: bytes / 2_000, ...ALL, ...more }, async () => {
      for (let made = 0; made < connections; made++) {
        const peer = await server.peer(t);
        for (let sent = 0; sent < calls; sent += 5) await paced(peer, [peer.each(5, make)]);
      }
    });
    if (more.faults === undefined) assert.deepEqual(cost.faults, {});
  }
  const say = block(grpcFields(SAY));
  const ignore = block(grpcFields("/test.Victim/Ignore"));
  const part = message(new Uint8Array(MB)).subarray(0, 200_000);

  await t.test("calls of which half is sent", (t) =>
    kept(t, 100, (id) => Buffer.concat([headers(id, say), body(id, part, 0)])),
  );

  await t.test("JSON bodies of which half is sent", (t) =>
    kept(t, 100, (id) => {
      const take = block(httpFields("POST", "/take"));
      return Buffer.concat([headers(id, take), body(id, Buffer.alloc(200_000, 0x20), 0)]);
    }),
  );

  await t.test("messages that a handler does not read", (t) =>
    kept(t, 100, (id) => {
      const messages = repeated(message(new Uint8Array(10_000)), 20);
      return Buffer.concat([headers(id, ignore), body(id, messages, 0)]);
    }),
  );

  await t.test("messages of nothing that a handler does not read", async (t) => {
    const [calls, messages] = [20, 50_000];
    const make = (id: number) =>
      Buffer.concat([headers(id, ignore), body(id, repeated(message(), messages), 0)]);
    const worth = { frames: 6 * calls * messages, each: 0.05, waited: 500 };
    await kept(t, calls, make, { ...worth, faults: { too_many_bytes: 1 } });
  });

  await t.test("a byte each, and rubbish around it, do not keep what they came with", async (t) => {
    const rubbish = repeated(Buffer.from([0, 0x3f, 0xf7, 0x42, 0, 0, 0, 0, 0]), 1);
    const around = Buffer.concat([rubbish, Buffer.alloc(0x3ff7), rubbish, Buffer.alloc(0x3ff7)]);
    const make = (id: number) => Buffer.concat([headers(id, say), data(id, Buffer.of(0)), around]);
    await kept(t, 600, make, {});
  });

  await t.test("a JSON body beyond its bound", async (t) => {
    const bound = { frames: 100, each: 5, held: 4 * MB, statuses: { 413: 1 } };
    await server.under(t, bound, async () => {
      const peer = await server.peer(t);
      const id = peer.next();
      await peer.send(headers(id, block(httpFields("POST", "/take"))));
      await paced(peer, Array<Buffer>(100).fill(data(id, Buffer.alloc(FULL, 0x20))));
      const { head } = await peer.outcome(id);
      assert.equal(head[":status"], "413", peer.told());
    });
  });

  await t.test("messages of nothing in any number are messages", async (t) => {
    const messages = 200_000;
    const cost = await server.under(
      t,
      { frames: messages, each: 0.2, held: 32 * MB, peak: 128 * MB },
      async () => {
        const peer = await server.peer(t);
        const id = peer.next();
        await peer.send(headers(id, block(grpcFields(GATHER)), END_HEADERS));
        const some = repeated(message(), 10_000);
        await paced(peer, Array<Buffer>(messages / 10_000 - 1).fill(body(id, some, 0)));
        await peer.send(body(id, some));
        const { body: reply } = await peer.outcome(id);
        assert.equal(reply.subarray(5).toString("latin1"), String(messages), peer.told());
      },
    );
    assert.deepEqual(cost.faults, {});
  });
});
