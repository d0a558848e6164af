// Probes between members over real sockets, in time that the test advances.

import assert from "node:assert/strict";
import dgram from "node:dgram";
import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Probes } from "#counters/peers/membership/probes.ts";
import { fakeClock } from "../../kit/clock.ts";
import { until } from "../../kit/until.ts";

const KEY = Buffer.alloc(32, 1);

async function prober(t: TestContext, id: string, key = KEY) {
  const clock = fakeClock();
  const seen: string[] = [];
  const note = (what: string) => (member: string) => void seen.push(`${what} ${member}`);
  const probes = new Probes({
    id,
    clock,
    key: () => key,
    heard: note("heard"),
    silent: note("silent"),
    gone: note("gone"),
  });
  let closed = false;
  const close = () => {
    if (!closed) probes.close();
    closed = true;
  };
  t.after(close);
  const port = await probes.listen("127.0.0.1", 0);
  return { probes, clock, seen, port, close };
}

/** A member whose port for calls is the same as for probes, unless another one is given. */
const member = (id: string, port: number, calls = port) => ({
  name: id,
  id,
  address: `127.0.0.1:${calls}`,
  probe: `127.0.0.1:${port}`,
});

/** A port that takes connections; resolves with it and the number of connections so far. */
async function listener(t: TestContext) {
  const accepted = { connections: 0 };
  const server = createServer((socket) => {
    accepted.connections++;
    socket.destroy();
  });
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return { accepted, port: typeof address === "object" ? (address?.port ?? 0) : 0 };
}

/** Advances the time until something was seen. */
async function seenBy({ clock, seen }: Awaited<ReturnType<typeof prober>>, what: string) {
  await until(what, () => {
    clock.advance(1_000);
    return seen.includes(what);
  });
}

test("a member answers, ends, and is replaced by another process", async (t) => {
  const a = await prober(t, "a");
  const b = await prober(t, "b");
  a.probes.set([member("a", a.port), member("b", b.port)]);
  await seenBy(a, "heard b");
  // Another process has its port: it says so.
  a.probes.set([member("old", b.port)]);
  await seenBy(a, "gone old");
  a.seen.length = 0;
  a.probes.set([member("b", b.port)]);
  await seenBy(a, "heard b");
  b.close();
  await seenBy(a, "gone b");
  assert.equal(a.probes.refused + b.probes.refused, 0);
});

test("a member that does not know the secret is silent, and counts the datagrams", async (t) => {
  const a = await prober(t, "a");
  const stranger = await prober(t, "b", Buffer.alloc(32, 2));
  a.probes.set([member("b", stranger.port)]);
  await seenBy(a, "silent b");
  assert.deepEqual(a.seen, ["silent b"], "once");
  await until("they are counted", () => stranger.probes.refused >= 3);
});

test("a member whose machine rejects datagrams is not gone while it takes connections", async (t) => {
  const a = await prober(t, "a");
  const b = await prober(t, "b");
  const { accepted, port } = await listener(t);
  a.probes.set([member("b", b.port, port)]);
  await seenBy(a, "heard b");
  b.close();
  await seenBy(a, "silent b");
  await until("a connection is tried", () => {
    a.clock.advance(1_000);
    return accepted.connections === 1;
  });
  await rejected(a, 5);
  assert.deepEqual(a.seen, ["heard b", "silent b"]);
  assert.equal(accepted.connections, 1, "refusals prove nothing until it answers again");
});

test("one refused datagram proves nothing: only the second one makes an agent try a connection", async (t) => {
  const a = await prober(t, "a");
  const b = await prober(t, "b");
  const { accepted, port } = await listener(t);
  a.probes.set([member("b", b.port, port)]);
  await seenBy(a, "heard b");
  b.close();
  let probes = 0;
  await until("a connection is tried", async () => {
    await rejected(a, 1);
    probes++;
    if (probes === 1) assert.equal(accepted.connections, 0);
    return accepted.connections === 1;
  });
});

test("a member that never answered is not gone when its machine rejects datagrams", async (t) => {
  const a = await prober(t, "a");
  const b = await prober(t, "b");
  b.close();
  a.probes.set([member("b", b.port)]);
  await seenBy(a, "silent b");
  await rejected(a, 5);
  assert.deepEqual(a.seen, ["silent b"]);
});

/** Lets so many more probes be rejected. The system reports a rejection before the next datagram is sent. */
async function rejected({ clock }: Awaited<ReturnType<typeof prober>>, count: number) {
  for (let n = 0; n < count; n++) {
    clock.advance(1_000);
    for (let at = 0; at < 20; at++) await turn();
  }
}

test("a system without IPv6 answers probes over IPv4", async (t) => {
  const { createSocket } = dgram;
  const types: string[] = [];
  t.mock.method(dgram, "createSocket", (options: dgram.SocketOptions) => {
    types.push(options.type);
    const socket = createSocket(options);
    if (options.type === "udp6") {
      const error = Object.assign(new Error("no IPv6"), { code: "EAFNOSUPPORT" });
      socket.bind = () => {
        setImmediate(() => socket.emit("error", error));
        return socket;
      };
    }
    return socket;
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const other = new Probes({
    id: "b",
    clock: fakeClock(),
    key: () => KEY,
    heard: assert.fail,
    silent: assert.fail,
    gone: assert.fail,
  });
  t.after(() => other.close());
  assert.ok((await other.listen("", 0)) > 0);
  assert.deepEqual(types, ["udp6", "udp4"]);
});

test("a member whose name is not found at first is silent, and probed as soon as it is found", async (t) => {
  const { lookup } = dns;
  let found = false;
  let lookups = 0;
  const look = (name: string, family: number, done: (...all: unknown[]) => void) => {
    lookups++;
    if (found) lookup(name, family, done);
    else setImmediate(done, Object.assign(new Error("not now"), { code: "EAI_AGAIN" }));
  };
  t.mock.method(dns, "lookup", look as typeof lookup);
  const a = await prober(t, "a");
  const b = await prober(t, "b");
  lookups = 0;
  a.probes.set([{ ...member("b", b.port), probe: `localhost:${b.port}` }]);
  await seenBy(a, "silent b");
  assert.ok(lookups > 1, "each probe looks again");
  found = true;
  await seenBy(a, "heard b");
  b.close();
  await seenBy(a, "gone b");
});
