// Requests to a server of counters that answers late, wrongly or not at all, with scripted replies and time that the
// test advances.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { type Channel, Requests } from "#counters/requests.ts";
import { fakeClock } from "../kit/clock.ts";

/** In place of a reply. */
const UNDECIDED = "undecided";

function bench(most = 10) {
  const clock = fakeClock();
  const sent: PromiseWithResolvers<string>[] = [];
  const probes: { readonly key: string | undefined; readonly done: PromiseWithResolvers<void> }[] =
    [];
  const transitions: (string | undefined)[] = [];
  let resets = 0;
  const channel: Channel<string, string> = {
    run(_key, receiver) {
      const done = Promise.withResolvers<string>();
      sent.push(done);
      done.promise.then(
        (reply) => (reply === UNDECIDED ? receiver.undecided() : receiver.replied(reply)),
        (thrown: unknown) => receiver.failed(thrown),
      );
    },
    probe(key) {
      const done = Promise.withResolvers<void>();
      probes.push({ key, done });
      return done.promise;
    },
    reset: () => void resets++,
    close: () => undefined,
  };
  const requests = new Requests(channel, {
    clock,
    timeoutMs: 100,
    probeMs: 1_000,
    most,
    changed: (reason) => transitions.push(reason),
  });
  const replies: (string | undefined)[] = [];
  const late: string[] = [];
  return {
    clock,
    sent,
    probes,
    transitions,
    requests,
    replies,
    late,
    resets: () => resets,
    ask: (key = "k") =>
      requests.ask(
        key,
        (reply) => replies.push(reply),
        (reply) => late.push(reply),
      ),
    /** Advances the time, and lets everything that falls due happen. */
    async pass(ms: number) {
      clock.advance(ms);
      await turn();
      await turn();
    },
  };
}

test("after one time limit all that wait are answered, and the rest is not sent", async () => {
  const { ask, sent, replies, transitions, requests, pass } = bench();
  ask("first");
  await pass(60);
  ask("second");
  await pass(39);
  assert.deepEqual(replies, []);
  await pass(1);
  assert.deepEqual(replies, [undefined, undefined], "also the one that waited for 40 ms only");
  assert.deepEqual(transitions, ["no reply within 100 ms"]);
  for (let n = 0; n < 5; n++) assert.equal(ask(), undefined);
  assert.equal(sent.length, 2);
  assert.deepEqual(requests.counts, {
    answered: 0,
    failed: 2,
    skipped: 5,
    refused: 0,
    away: 1,
    back: 0,
  });
});

test("replies that arrived while the process was busy are in time", async () => {
  const { ask, sent, replies, transitions, clock, pass } = bench();
  ask();
  // The alarm rings before the reply is read, as after a long pause of the process.
  clock.advance(500);
  sent[0]?.resolve("1");
  await pass(0);
  assert.deepEqual([replies, transitions], [["1"], []]);
});

test("probes until one succeeds, then asks again: one transition each way", async () => {
  const { ask, sent, probes, replies, transitions, requests, resets, pass } = bench();
  ask("of a shard");
  sent[0]?.reject(new Error("OOM"));
  await pass(0);
  assert.deepEqual([replies, transitions], [[undefined], ["OOM"]]);
  await pass(999);
  assert.equal(probes.length, 0);
  await pass(1);
  assert.equal(probes[0]?.key, "of a shard");
  probes[0]?.done.reject(new Error("still OOM"));
  await pass(0);
  assert.equal(requests.reason, "still OOM");
  assert.equal(resets(), 0);
  await pass(1_000);
  await pass(100);
  assert.equal(resets(), 1, "a probe without a reply connects anew");
  await pass(1_000);
  assert.equal(probes.length, 3);
  probes[2]?.done.resolve();
  await pass(0);
  assert.deepEqual(transitions, ["OOM", undefined]);
  assert.notEqual(ask(), undefined);
  sent[1]?.resolve("1");
  await pass(0);
  assert.deepEqual(replies, [undefined, "1"]);
  assert.deepEqual([requests.counts.away, requests.counts.back], [1, 1]);
});

test("a late reply is handed over, once, to give back what it took", async () => {
  const { ask, sent, replies, late, pass } = bench();
  const request = ask();
  ask();
  request?.cancel();
  assert.deepEqual(replies, [undefined]);
  await pass(100);
  assert.deepEqual(replies, [undefined, undefined]);
  sent[0]?.resolve("a");
  sent[1]?.resolve("b");
  await pass(0);
  assert.deepEqual([replies.length, late], [2, ["a", "b"]]);
});

test("cancelling is no sign of an outage", async () => {
  const { ask, transitions, pass } = bench();
  for (let n = 0; n < 5; n++) ask()?.cancel();
  await pass(1_000);
  assert.deepEqual(transitions, []);
});

test("a bounded number waits, also of those that were cancelled", async () => {
  const { ask, sent, requests, pass } = bench(2);
  ask()?.cancel();
  ask();
  assert.equal(ask(), undefined);
  assert.equal(requests.counts.refused, 1);
  sent[0]?.resolve("1");
  await pass(0);
  assert.notEqual(ask(), undefined);
});

test("closing answers all and leaves no alarm", async () => {
  const { ask, clock, requests, replies, pass } = bench();
  ask();
  await pass(10);
  requests.close();
  assert.deepEqual([replies, clock.alarms], [[undefined], 0]);
  requests.trip("closed");
  await pass(10_000);
  assert.equal(clock.alarms, 0);
  assert.equal(ask(), undefined);

  const away = bench();
  away.requests.trip("refused");
  await away.pass(1_000);
  away.requests.close();
  assert.equal(away.clock.alarms, 0);
});

test("a request that the server cannot decide fails alone: the server is no less there", async () => {
  const { ask, sent, replies, transitions, requests, pass } = bench();
  for (let n = 0; n < 3; n++) ask(`key ${n}`);
  sent[1]?.resolve(UNDECIDED);
  await pass(0);
  assert.deepEqual([replies, transitions], [[undefined], []]);
  sent[0]?.resolve("1");
  sent[2]?.resolve("2");
  await pass(0);
  assert.deepEqual(replies, [undefined, "1", "2"]);
  assert.deepEqual([requests.counts.answered, requests.counts.failed], [2, 1]);
  ask();
  sent[3]?.resolve(UNDECIDED);
  await requests.drain();
  assert.deepEqual(replies.at(-1), undefined, "what is drained need not be decided");
});
