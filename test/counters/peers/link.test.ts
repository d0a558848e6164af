// The link to another agent: hand-overs are written in slices, and sent again until they arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Caller, Link } from "#counters/peers/exchange/link.ts";
import { Slices } from "#runtime/life/slices.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { type FakeClock, fakeClock } from "../../kit/clock.ts";

const limiter = { name: { policyName: "policy", name: "limiter" }, params: TEN_PER_SECOND };
const BUCKET = { kind: "bucket", limiter, lo: 1, hi: 2, available: 3, filledMs: 0 } as const;

function linkOf(clock: FakeClock, call: Caller["call"], slices = new Slices(clock)): Link {
  let number = 0;
  return new Link({
    member: { name: "other", id: "other", address: "other", probe: undefined },
    from: "this",
    clock,
    timeoutMs: 100,
    probeMs: 1_000,
    most: 10,
    number: () => ++number,
    slices,
    changed: () => undefined,
    caller: { call, close: () => undefined },
  });
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

async function settle(): Promise<void> {
  for (let n = 0; n < 10; n++) await turn();
}

test("what is to be sent after a link was closed comes back at once", async () => {
  const link = linkOf(fakeClock(), () => assert.fail("a call after the end"));
  link.close();
  assert.deepEqual(await link.store("copy", [BUCKET], false), [BUCKET]);
});

test("a hand-over that fails is sent again after 100 ms, twice that, and so on up to a second", async () => {
  const clock = fakeClock();
  const sentAt: number[] = [];
  const link = linkOf(clock, async () => {
    sentAt.push(clock.now());
    if (sentAt.length !== 8) throw new Error("away");
    return new Uint8Array();
  });
  const first = link.store("hand over", [BUCKET], false);
  const second = link.store("hand over", [BUCKET], true);
  await settle();
  for (let passed = 0; passed < 4_800; passed += 50) {
    clock.advance(50);
    await settle();
  }
  assert.deepEqual(await first, []);
  const waits = sentAt.map((at, n) => at - (sentAt[n - 1] ?? at));
  // The eighth message arrives, and the one behind it fails from the beginning.
  assert.deepEqual(waits, [0, 100, 200, 400, 800, 1_000, 1_000, 1_000, 0, 100, 200]);
  link.close();
  assert.deepEqual(await second, [BUCKET]);
  assert.equal(clock.alarms, 0);
});

test("hand-overs to many agents are written in slices, and other work has its turn in between", async () => {
  const clock = fakeClock();
  const slices = new Slices(clock);
  let calls = 0;
  const links = Array.from({ length: 12 }, () =>
    linkOf(
      clock,
      async () => {
        calls++;
        // More than a slice.
        clock.advance(5);
        return new Uint8Array();
      },
      slices,
    ),
  );
  const stored = Promise.all(links.map((link) => link.store("hand over", [BUCKET], true)));
  let before = 0;
  while (calls < links.length) {
    await turn();
    assert.ok(calls - before <= 1, `${calls - before} messages in one turn`);
    before = calls;
  }
  assert.deepEqual((await stored).flat(), []);
  for (const link of links) link.close();
});

test("a link that is closed while its hand-over waits for a slice sends nothing", async () => {
  const clock = fakeClock();
  let calls = 0;
  const link = linkOf(clock, async () => {
    calls++;
    return new Uint8Array();
  });
  const stored = link.store("hand over", [BUCKET], true);
  link.close();
  assert.deepEqual(await stored, [BUCKET]);
  await settle();
  assert.equal(calls, 0);
});
