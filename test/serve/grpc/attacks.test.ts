// Attacks on the gRPC layer: messages that are begun and never finished, and compression bombs. The tests bound what
// each costs, check how it is counted, and require that an honest caller is served meanwhile.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import { deflateSync, gzipSync } from "node:zlib";
import { readTimeoutPassed, startTarget, type TargetServer } from "../../kit/attack/measure.ts";
import {
  data,
  END_STREAM,
  grpcFields,
  grpcStatus,
  headers,
  MAX_FRAME_SIZE,
  message,
  type RawPeer,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";

const MB = 1024 * 1024;
const SAY = "/test.Target/Say";
const GATHER = "/test.Target/Gather";
const DEADLINE_EXCEEDED = "4";
const RESOURCE_EXHAUSTED = "8";
const WIDE = Buffer.concat([settings([4, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
const READ_TIMEOUT = 1_000;

/** Two messages of this size, with the overhead of their calls, are what one connection may make the server buffer. */
const LARGE = 4 * MB - 64 * 1024;

/** Sends a little more than a quarter of a large message: the server allocates space for all of it. */
async function beginLarge(peer: RawPeer, path: string): Promise<number> {
  const id = peer.nextStream();
  const part = message(Buffer.alloc(LARGE)).subarray(0, MB + MAX_FRAME_SIZE);
  await peer.send(headers(id, block(grpcFields(path))));
  for (let at = 0; at < part.length && !peer.ended; at += MAX_FRAME_SIZE) {
    await peer.send(data(id, part.subarray(at, at + MAX_FRAME_SIZE)));
    if ((at / MAX_FRAME_SIZE) % 4 === 3) await peer.goawayOr(peer.pingRoundTrip());
  }
  return id;
}

/** Sends incomplete small messages until the space that the large ones left is used up. */
async function beginSmall(peer: RawPeer, path: string): Promise<void> {
  const part = message(Buffer.alloc(MAX_FRAME_SIZE)).subarray(0, MAX_FRAME_SIZE);
  const head = block(grpcFields(path));
  for (let sent = 0; sent < 200 && !peer.ended; sent += 20) {
    await peer.send(
      peer.onNewStreams(20, (id) => Buffer.concat([headers(id, head), data(id, part)])),
    );
    await peer.goawayOr(peer.pingRoundTrip());
  }
}

/** Makes a call whose message of 5 kB arrives in two frames; returns its status. */
async function inTwoFrames(peer: RawPeer): Promise<string> {
  const id = peer.nextStream();
  const whole = message(Buffer.alloc(5_000));
  await peer.send(headers(id, block(grpcFields(SAY))), data(id, whole.subarray(0, 4_000)));
  await peer.pingRoundTrip();
  await peer.send(data(id, whole.subarray(4_000), END_STREAM));
  return grpcStatus(await peer.outcome(id));
}

/** Makes compressed calls one after another, each of which must be served. `test/serve/grpc/inflater.test.ts` has the order. */
async function compressed(peer: RawPeer, calls: number): Promise<void> {
  const head = block(grpcFields(SAY, ["grpc-encoding", "gzip"]));
  for (let made = 0; made < calls; made++) {
    const id = peer.nextStream();
    const bytes = message(gzipSync(Buffer.from("honest")), 1);
    await peer.send(headers(id, head), data(id, bytes, END_STREAM));
    assert.equal(grpcStatus(await peer.outcome(id)), "0", peer.describeFrames());
    await after(5);
  }
}

test("bounds the cost of messages that are begun and never finished", async (t) => {
  const server = await startTarget(t, { settings: { http: { read_timeout: READ_TIMEOUT } } });

  for (const [kind, path] of [
    ["calls", SAY],
    ["streams", GATHER],
  ] as const) {
    await t.test(
      `nine connections with ${kind} cannot occupy the whole pool, nor hold their share for long`,
      async (t) => {
        const [connections, messages] = [8, 2];
        const bound = {
          frames: connections * messages * 65 + 400,
          callsPerFrame: 20,
          held: 8 * MB,
          peak: 256 * MB,
          faults: { slow_body: 8 },
        };
        let begunWithin = 0;
        const { faults } = await server.withstand(t, bound, async () => {
          const honest = await server.peer(t);
          const peers = await Promise.all(
            Array.from({ length: connections }, () => server.peer(t, { initialFrames: WIDE })),
          );
          const start = performance.now();
          const begun = (
            await Promise.all(
              peers.map(async (peer) => {
                const ids = [await beginLarge(peer, path), await beginLarge(peer, path)];
                return ids.map((id) => ({ peer, id }));
              }),
            )
          ).flat();
          begunWithin = performance.now() - start;
          const filler = await server.peer(t, { initialFrames: WIDE });
          await beginSmall(filler, path);
          const whileHeld = await inTwoFrames(honest);
          assert.equal(whileHeld, "0", "the honest caller was not served");
          // All of them end by themselves: those that did not fit at once, the others when read_timeout has passed.
          const ends = await Promise.all(begun.map(({ peer, id }) => peer.outcome(id)));
          const statuses = ends.map(grpcStatus);
          const slow = statuses.filter((status) => status === DEADLINE_EXCEEDED).length;
          const refused = statuses.filter((status) => status === RESOURCE_EXHAUSTED).length;
          assert.equal(slow + refused, begun.length, statuses.join());
          // Twelve such messages fill three quarters of the pool. On a slow machine some end before others begin.
          if (begunWithin < READ_TIMEOUT) assert.equal(slow, 12, statuses.join());
          assert.ok(slow >= 12, statuses.join());
          for (const peer of [...peers, filler]) peer.socket.destroy();
        });
        if (begunWithin < READ_TIMEOUT) assert.ok((faults.too_many_bytes ?? 0) > 0);
      },
    );
  }

  await t.test("a byte now and then does not restart the time limit of a message", async (t) => {
    await server.withstand(t, { frames: 200, faults: { slow_body: 1 } }, async () => {
      const peer = await server.peer(t);
      const id = peer.nextStream();
      const whole = message(Buffer.alloc(1_000));
      await peer.send(headers(id, block(grpcFields(GATHER))), data(id, whole.subarray(0, 7)));
      let at = 7;
      const drip = setInterval(() => void peer.send(data(id, whole.subarray(at, ++at))), 50);
      // The message would take 50 s to be complete.
      const status = grpcStatus(await peer.outcome(id));
      clearInterval(drip);
      assert.equal(status, DEADLINE_EXCEEDED, peer.describeFrames());
    });
  });

  // `stream-call.test.ts` has pauses within a message, in virtual time.
  await t.test("a stream that pauses between messages is not an attack", async (t) => {
    const cost = await server.withstand(t, { frames: 20 }, async () => {
      const [peer, other] = [await server.peer(t), await server.peer(t)];
      const id = peer.nextStream();
      const one = message(Buffer.from("now and then"));
      await peer.send(headers(id, block(grpcFields(GATHER))));
      for (let sent = 0; sent < 4; sent++) {
        await peer.send(data(id, one.subarray(0, 6)));
        await peer.pingRoundTrip();
        await peer.send(data(id, one.subarray(6)));
        if (sent === 1) await readTimeoutPassed(other);
      }
      await peer.send(data(id, undefined, END_STREAM));
      const outcome = await peer.outcome(id);
      assert.equal(grpcStatus(outcome), "0", peer.describeFrames());
      assert.equal(outcome.body.subarray(5).toString(), "4");
    });
    assert.deepEqual(cost.faults, { slow_body: 1 });
  });
});

/** Sends a compressed message in call after call until the server ends the connection or all are answered. */
async function bombard(
  peer: RawPeer,
  encoding: string,
  bytes: Uint8Array,
  calls: number,
): Promise<number> {
  const head = block(grpcFields(SAY, ["grpc-encoding", encoding]));
  const bomb = message(bytes, 1);
  const ids = Array.from({ length: calls }, () => peer.nextStream());
  for (const id of ids) {
    if (peer.ended) break;
    await peer.send(headers(id, head), data(id, bomb, END_STREAM));
    await peer.goawayOr(peer.pingRoundTrip());
  }
  const outcomes = await Promise.all(ids.map((id) => peer.outcome(id)));
  return outcomes.filter((outcome) => grpcStatus(outcome) !== "").length;
}

async function assertCalmed(peer: RawPeer): Promise<void> {
  const code = await Promise.race([peer.goaway(), after(15_000, "nothing", { ref: false })]);
  assert.equal(code, "ENHANCE_YOUR_CALM", peer.describeFrames());
}

async function bombs(t: TestContext, server: TargetServer, encoding: string, bytes: Uint8Array) {
  assert.ok(bytes.length < MAX_FRAME_SIZE, `${bytes.length} bytes`);
  const calls = 500;
  // Each bomb that is inflated before the GOAWAY costs a thousand calls.
  const bound = { frames: 20_000 + calls, held: 24 * MB, peak: 128 * MB };
  return server.withstand(t, { ...bound, faults: { inflate: 1 } }, async () => {
    const [peer, honest] = [
      await server.peer(t, { initialFrames: WIDE }),
      await server.peer(t, { initialFrames: WIDE }),
    ];
    const [answered] = await Promise.all([
      bombard(peer, encoding, bytes, calls),
      compressed(honest, 20),
    ]);
    await assertCalmed(peer);
    // 20 at once, two for each second, and a few that were answered in the same turn as the GOAWAY.
    assert.ok(answered >= 15 && answered <= 60, `${answered} calls were answered`);
  });
}

test("bounds the cost of compression bombs", async (t) => {
  const server = await startTarget(t);

  await t.test("gzip beyond the message limit", async (t) => {
    const cost = await bombs(t, server, "gzip", gzipSync(Buffer.alloc(4 * MB + 1)));
    assert.ok((cost.faults.inflate ?? 0) >= 15, "not every bomb was counted as a fault");
  });

  await t.test("deflate beyond the message limit", async (t) => {
    const cost = await bombs(t, server, "deflate", deflateSync(Buffer.alloc(8 * MB)));
    assert.ok((cost.faults.inflate ?? 0) >= 15, "not every bomb was counted as a fault");
  });

  await t.test("gzip that is invalid after megabytes", async (t) => {
    const broken = gzipSync(Buffer.alloc(4 * MB - 1)).subarray(0, -6);
    const cost = await bombs(t, server, "gzip", broken);
    assert.ok((cost.faults.inflate ?? 0) >= 15, "not every bomb was counted as a fault");
  });

  await t.test(
    "many connections with all their bombs at once: an honest one still gets its turn",
    async (t) => {
      const [connections, calls] = [10, 200];
      const bomb = message(gzipSync(Buffer.alloc(8 * MB)), 1);
      const head = block(grpcFields(SAY, ["grpc-encoding", "gzip"]));
      const bound = {
        frames: connections * (20_000 + calls),
        held: 24 * MB,
        peak: 128 * MB,
        faults: { inflate: connections },
      };
      await server.withstand(t, bound, async () => {
        const honest = await server.peer(t, { initialFrames: WIDE });
        const peers = await Promise.all(
          Array.from({ length: connections }, () => server.peer(t, { initialFrames: WIDE })),
        );
        const all = peers.map(async (peer) => {
          const make = (id: number) =>
            Buffer.concat([headers(id, head), data(id, bomb, END_STREAM)]);
          for (let sent = 0; sent < calls && !peer.ended; sent += 50) {
            await peer.send(peer.onNewStreams(50, make));
            await peer.goawayOr(peer.pingRoundTrip());
          }
          await assertCalmed(peer);
        });
        await Promise.all([compressed(honest, 20), ...all]);
      });
    },
  );

  await t.test("well compressed messages are not an attack", async (t) => {
    const line = (id: string) => `{"path":"/api/v1/items","status":200,"request":"${id}"}\n`;
    const log = Buffer.from(
      Array.from({ length: 2_000 }, () => line(randomBytes(4).toString("hex"))).join(""),
    );
    const small = gzipSync(log);
    const calls = 100;
    const cost = await server.withstand(t, { frames: calls, callsPerFrame: 500 }, async () => {
      const peer = await server.peer(t, { initialFrames: WIDE });
      assert.equal(await bombard(peer, "gzip", small, calls), calls, peer.describeFrames());
      assert.equal(await peer.unary(SAY), "0");
    });
    assert.deepEqual(cost.faults, {});
  });
});
