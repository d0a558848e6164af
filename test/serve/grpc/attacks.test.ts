// Attacks on gRPC's own share of a call: messages that are begun and never finished, and compressed ones that cost
// far more than they are. What each costs, how it is counted, and how an honest caller fares meanwhile.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import { deflateSync, gzipSync } from "node:zlib";
import {
  data,
  END_STREAM,
  FULL,
  grpcFields,
  grpcStatus,
  headers,
  message,
  type RawPeer,
  settings,
  windowUpdate,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type Victim, victim } from "../../kit/watch.ts";

const MB = 1024 * 1024;
const SAY = "/test.Victim/Say";
const GATHER = "/test.Victim/Gather";
const DEADLINE_EXCEEDED = "4";
const WIDE = Buffer.concat([settings([4, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30)]);
const READ_TIMEOUT = 1_000;
/** A message may take until the sweep after its time; and machines are slow. */
const IN_TIME = READ_TIMEOUT * 1.25 + 2_000;
/** What honest callers wait for at most, ms; an attack that works makes them wait for seconds. */
const PROMPT = 1_000;

/** Two of them, and what their calls count, are what one connection may make the server keep. */
const LARGE = 4 * MB - 64 * 1024;

/** A message of which a little more than a quarter comes: room is made for all of it. */
async function beginLarge(peer: RawPeer, path: string): Promise<number> {
  const id = peer.next();
  const part = message(Buffer.alloc(LARGE)).subarray(0, MB + FULL);
  await peer.send(headers(id, block(grpcFields(path))));
  for (let at = 0; at < part.length && !peer.ended; at += FULL) {
    await peer.send(data(id, part.subarray(at, at + FULL)));
    if ((at / FULL) % 4 === 3) await peer.goawayOr(peer.pong());
  }
  return id;
}

/** Small messages that are not whole, until what the large ones have left of all room is taken. */
async function beginSmall(peer: RawPeer, path: string): Promise<void> {
  const part = message(Buffer.alloc(FULL)).subarray(0, FULL);
  const head = block(grpcFields(path));
  for (let sent = 0; sent < 200 && !peer.ended; sent += 20) {
    await peer.send(peer.each(20, (id) => Buffer.concat([headers(id, head), data(id, part)])));
    await peer.goawayOr(peer.pong());
  }
}

/** A call whose message of 5 kB comes in two frames: its status, and how long it took. */
async function inTwoFrames(peer: RawPeer): Promise<{ status: string; ms: number }> {
  const start = performance.now();
  const id = peer.next();
  const whole = message(Buffer.alloc(5_000));
  await peer.send(headers(id, block(grpcFields(SAY))), data(id, whole.subarray(0, 4_000)));
  await peer.pong();
  await peer.send(data(id, whole.subarray(4_000), END_STREAM));
  return { status: grpcStatus(await peer.outcome(id)), ms: performance.now() - start };
}

/** Compressed calls, one after another, each timed. */
async function compressed(peer: RawPeer, calls: number): Promise<number> {
  const head = block(grpcFields(SAY, ["grpc-encoding", "gzip"]));
  let longest = 0;
  for (let made = 0; made < calls; made++) {
    const start = performance.now();
    const id = peer.next();
    const bytes = message(gzipSync(Buffer.from("honest")), 1);
    await peer.send(headers(id, head), data(id, bytes, END_STREAM));
    assert.equal(grpcStatus(await peer.outcome(id)), "0", peer.told());
    longest = Math.max(longest, performance.now() - start);
    await after(5);
  }
  return longest;
}

test("messages that are begun and never finished", async (t) => {
  const server = await victim(t, { settings: { http: { read_timeout: READ_TIMEOUT } } });

  for (const [kind, path] of [
    ["calls", SAY],
    ["streams", GATHER],
  ] as const) {
    await t.test(`nine connections with ${kind} do not take all room, nor keep it`, async (t) => {
      const [connections, messages] = [8, 2];
      const bound = {
        frames: connections * messages * 65 + 400,
        each: 20,
        held: 8 * MB,
        peak: 256 * MB,
        faults: { slow_body: 8, too_many_bytes: 1 },
      };
      await server.under(t, bound, async () => {
        const honest = await server.peer(t);
        const peers = await Promise.all(
          Array.from({ length: connections }, () => server.peer(t, { greeting: WIDE })),
        );
        const begun = (
          await Promise.all(
            peers.map(async (peer) => {
              const ids = [await beginLarge(peer, path), await beginLarge(peer, path)];
              return ids.map((id) => ({ peer, id }));
            }),
          )
        ).flat();
        const filler = await server.peer(t, { greeting: WIDE });
        await beginSmall(filler, path);
        const start = performance.now();
        const { status, ms } = await inTwoFrames(honest);
        assert.equal(status, "0", "served while all others hold what they may");
        assert.ok(ms < PROMPT, `took ${ms} ms`);
        const ends = Promise.all(begun.map(({ peer, id }) => peer.outcome(id)));
        ends.catch(() => undefined);
        await Promise.race([ends, after(IN_TIME)]);
        const statuses = begun.map(({ peer, id }) => grpcStatus(peer.outcomeSoFar(id)));
        const waited = performance.now() - start;
        assert.ok(waited < IN_TIME, `kept for ${waited} ms`);
        const slow = statuses.filter((status) => status === DEADLINE_EXCEEDED);
        // Three quarters of all room are twelve such messages; the others were refused at once.
        assert.equal(slow.length, 12, statuses.join());
        for (const peer of [...peers, filler]) peer.socket.destroy();
      });
    });
  }

  await t.test("a byte now and then does not make it another message", async (t) => {
    await server.under(t, { frames: 200, faults: { slow_body: 1 } }, async () => {
      const peer = await server.peer(t);
      const id = peer.next();
      const whole = message(Buffer.alloc(1_000));
      await peer.send(headers(id, block(grpcFields(GATHER))), data(id, whole.subarray(0, 7)));
      let at = 7;
      const drip = setInterval(() => void peer.send(data(id, whole.subarray(at, ++at))), 50);
      const start = performance.now();
      await Promise.race([peer.outcome(id), after(IN_TIME, undefined, { ref: false })]);
      clearInterval(drip);
      const status = grpcStatus(peer.outcomeSoFar(id));
      assert.equal(status, DEADLINE_EXCEEDED, peer.told());
      assert.ok(performance.now() - start < IN_TIME);
    });
  });

  await t.test("a stream that takes its time between messages is no attack", async (t) => {
    const cost = await server.under(t, { frames: 10 }, async () => {
      const peer = await server.peer(t);
      const id = peer.next();
      const one = message(Buffer.from("now and then"));
      await peer.send(headers(id, block(grpcFields(GATHER))));
      for (let sent = 0; sent < 4; sent++) {
        await peer.send(data(id, one.subarray(0, 6)));
        await after(READ_TIMEOUT / 2);
        await peer.send(data(id, one.subarray(6)));
        await after(sent === 1 ? READ_TIMEOUT * 1.6 : READ_TIMEOUT / 10);
      }
      await peer.send(data(id, undefined, END_STREAM));
      const outcome = await peer.outcome(id);
      assert.equal(grpcStatus(outcome), "0", peer.told());
      assert.equal(outcome.body.subarray(5).toString(), "4");
    });
    assert.deepEqual(cost.faults, {});
  });
});

/** Sends a compressed message in call after call until the connection is ended, or all are answered. */
async function bombard(
  peer: RawPeer,
  encoding: string,
  bytes: Uint8Array,
  calls: number,
): Promise<number> {
  const head = block(grpcFields(SAY, ["grpc-encoding", encoding]));
  const bomb = message(bytes, 1);
  const ids = Array.from({ length: calls }, () => peer.next());
  for (const id of ids) {
    if (peer.ended) break;
    await peer.send(headers(id, head), data(id, bomb, END_STREAM));
    await peer.goawayOr(peer.pong());
  }
  const outcomes = await Promise.all(ids.map((id) => peer.outcome(id)));
  return outcomes.filter((outcome) => grpcStatus(outcome) !== "").length;
}

async function calmed(peer: RawPeer): Promise<void> {
  const told = await Promise.race([peer.goaway(), after(15_000, "nothing", { ref: false })]);
  assert.equal(told, "ENHANCE_YOUR_CALM", peer.told());
}

async function bombs(t: TestContext, server: Victim, encoding: string, bytes: Uint8Array) {
  assert.ok(bytes.length < FULL, `${bytes.length} bytes`);
  const calls = 500;
  // Those that are inflated before it is told to stop are worth a thousand calls each.
  const bound = { frames: 20_000 + calls, held: 24 * MB, peak: 128 * MB };
  return server.under(t, { ...bound, faults: { inflate: 1 } }, async () => {
    const [peer, honest] = [
      await server.peer(t, { greeting: WIDE }),
      await server.peer(t, { greeting: WIDE }),
    ];
    const [answered, longest] = await Promise.all([
      bombard(peer, encoding, bytes, calls),
      compressed(honest, 20),
    ]);
    await calmed(peer);
    // 20 at once, two for each second, and a few that were answered in the turn in which it was told.
    assert.ok(answered >= 15 && answered <= 60, `${answered} were answered`);
    assert.ok(longest < PROMPT, `an honest caller waited for ${longest} ms`);
  });
}

test("compressed messages that cost far more than they are", async (t) => {
  const server = await victim(t);

  await t.test("gzip beyond the bound on messages", async (t) => {
    const cost = await bombs(t, server, "gzip", gzipSync(Buffer.alloc(4 * MB + 1)));
    assert.ok((cost.faults.inflate ?? 0) >= 15, "each of them is counted");
  });

  await t.test("deflate beyond the bound on messages", async (t) => {
    const cost = await bombs(t, server, "deflate", deflateSync(Buffer.alloc(8 * MB)));
    assert.ok((cost.faults.inflate ?? 0) >= 15, "each of them is counted");
  });

  await t.test("gzip that breaks behind megabytes", async (t) => {
    const broken = gzipSync(Buffer.alloc(4 * MB - 1)).subarray(0, -6);
    const cost = await bombs(t, server, "gzip", broken);
    assert.ok((cost.faults.inflate ?? 0) >= 15, "each of them is counted");
  });

  await t.test(
    "many connections with all their bombs at once: an honest one has its turn",
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
      await server.under(t, bound, async () => {
        const honest = await server.peer(t, { greeting: WIDE });
        const peers = await Promise.all(
          Array.from({ length: connections }, () => server.peer(t, { greeting: WIDE })),
        );
        const all = peers.map(async (peer) => {
          const make = (id: number) =>
            Buffer.concat([headers(id, head), data(id, bomb, END_STREAM)]);
          for (let sent = 0; sent < calls && !peer.ended; sent += 50) {
            await peer.send(peer.each(50, make));
            await peer.goawayOr(peer.pong());
          }
          await calmed(peer);
        });
        const [longest] = await Promise.all([compressed(honest, 20), ...all]);
        assert.ok(longest < PROMPT, `an honest caller waited for ${longest} ms`);
      });
    },
  );

  await t.test("messages that come well compressed are no attack", async (t) => {
    const line = (id: string) => `{"path":"/api/v1/items","status":200,"request":"${id}"}\n`;
    const log = Buffer.from(
      Array.from({ length: 2_000 }, () => line(randomBytes(4).toString("hex"))).join(""),
    );
    const small = gzipSync(log);
    const calls = 100;
    const cost = await server.under(t, { frames: calls, each: 500 }, async () => {
      const peer = await server.peer(t, { greeting: WIDE });
      assert.equal(await bombard(peer, "gzip", small, calls), calls, peer.told());
      assert.equal(await peer.unary(SAY), "0");
    });
    assert.deepEqual(cost.faults, {});
  });
});
