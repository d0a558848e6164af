// Probes between members over real sockets, in time that the test advances.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Probes } from "../../../src/fleet/peers/membership/probes.ts";
import { fakeClock } from "../../kit/clock.ts";
import { until } from "../../kit/until.ts";

const KEY = Buffer.alloc(32, 1);

async function prober(t: TestContext, id: string, key = KEY) {
  const clock = fakeClock();
  const seen: string[] = [];
  const note = (what: string) => (member: string) => void seen.push(`${what} ${member}`);
  const probes = new Probes({
    ...{ id, clock, key: () => key },
    ...{ heard: note("heard"), silent: note("silent"), gone: note("gone") },
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

const member = (id: string, port: number) => ({
  ...{ name: id, id, address: "" },
  probe: `127.0.0.1:${port}`,
});

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
  a.probes.set([member("b", b.port)]);
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
