// Delivery of alerts to receivers: when they are sent, in which batches, and what happens when a receiver is slow.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { AlertReceiver, FiredAlert } from "#telemetry/alerts/alerts.ts";
import { until } from "../../kit/until.ts";
import { fakeServer } from "../../prometheus/kit.ts";
import { AT, alertmanager, alerts, alertsTo, named, names, posted, WRONG } from "./kit.ts";

test("batches are sent after the timeout or when full, and split at their maximum size", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const batch = { send_batch_max_size: 3, send_batch_size: 2, timeout: 1_000 };
  const { all, clock, counts } = alerts(t, [alertmanager(server.url)], { batch });
  all.fire(named("a"), "p", AT);
  clock.advance(999);
  assert.deepEqual(counts(), {});
  clock.advance(1);
  await until("a", () => counts()["sent"] === 1);
  for (const name of ["b", "c"]) all.fire(named(name), "p", AT);
  for (const name of ["d", "e", "f", "g"]) all.fire(named(name), "p", AT);
  await until("b c, then what came meanwhile", () => counts()["sent"] === 6);
  clock.advance(1_000);
  await until("the rest", () => counts()["sent"] === 7);
  assert.deepEqual(names(server.heard), [["a"], ["b", "c"], ["d", "e", "f"], ["g"]]);
  assert.equal(clock.alarms, 0);
});

test("an alert that fires again while it waits is extended", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock } = alerts(t, [alertmanager(server.url)]);
  for (let tick = 0; tick < 5; tick++) all.fire(WRONG, "p", AT + tick * 100);
  all.fire(WRONG, "q", AT);
  clock.advance(1_000);
  await until("it is posted", () => server.heard.length === 1);
  const [first, ...others] = server.heard.flatMap(posted);
  assert.equal(others.length, 1);
  assert.equal(first?.startsAt, new Date(AT).toISOString());
  assert.equal(first?.endsAt, new Date(AT + 400 + 30_000).toISOString());
});

test("a stuck Alertmanager does not delay another; its oldest alerts are dropped", async (t) => {
  const stuck = await fakeServer(t, () => undefined);
  const well = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock, counts } = alerts(
    t,
    [alertmanager(stuck.url, { name: "stuck" }), alertmanager(well.url, { name: "well" })],
    { queueSize: 3 },
  );
  all.fire(named("first"), "p", AT);
  clock.advance(1_000);
  await until("the first is under way", () => stuck.heard.length === 1);
  // Otherwise the next alert would come while it is busy and wait for a time that the fake clock never reaches.
  await until("the other one has it", () => counts("well")["sent"] === 1);
  for (let at = 0; at < 8; at++) {
    all.fire(named(`${at}`), "p", AT);
    clock.advance(1_000);
    await until("the other one has it", () => counts("well")["sent"] === at + 2);
  }
  assert.deepEqual(counts("stuck"), { dropped: 5 });
  assert.equal(stuck.heard.length, 1);
  clock.advance(60_000);
  await until("the first is given up", () => counts("stuck")["failed"] === 1);
  clock.advance(1_000);
  await until("the next are under way", () => stuck.heard.length === 2);
  assert.deepEqual(names(stuck.heard), [["first"], ["5", "6", "7"]]);
});

test("close sends waiting alerts, and does not wait for a stuck Alertmanager", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const batch = { send_batch_max_size: 2, send_batch_size: 0, timeout: 1_000 };
  const well = alerts(t, [alertmanager(server.url)], { batch });
  for (const name of ["a", "b", "c"]) well.all.fire(named(name), "p", AT);
  await well.all.close();
  well.all.fire(WRONG, "p", AT);
  assert.deepEqual(names(server.heard), [["a", "b"], ["c"]]);
  assert.deepEqual([well.counts(), well.clock.alarms], [{ sent: 3 }, 0]);

  const mute = await fakeServer(t, () => undefined);
  const stuck = alerts(t, [alertmanager(mute.url)]);
  stuck.all.fire(WRONG, "p", AT);
  stuck.clock.advance(1_000);
  await until("it is under way", () => mute.heard.length === 1);
  stuck.all.fire(named("another"), "p", AT);
  const closed = stuck.all.close();
  stuck.clock.advance(2_000);
  await closed;
  assert.deepEqual([mute.heard.length, stuck.clock.alarms], [1, 0]);
  assert.deepEqual(stuck.counts(), { failed: 1, dropped: 1 });
});

test("a receiver of another kind: refused alerts are isolated, failures are logged under its own kind", async (t) => {
  const batches: (readonly FiredAlert[])[] = [];
  let closes = 0;
  let fails = false;
  const receiver: AlertReceiver = {
    name: "night shift",
    kind: { field: "pager", phrase: "a pager" },
    async send(batch) {
      batches.push(batch);
      if (fails) throw new Fault("UNAVAILABLE", "no signal");
      return batch.some(({ alert }) => alert.name === "bad") ? "refused" : "sent";
    },
    async close() {
      closes += 1;
    },
  };
  const { all, clock, counts, lines } = alertsTo(t, [receiver]);
  for (const name of ["a", "bad"]) all.fire(named(name), "p", AT);
  clock.advance(1_000);
  await until("both are settled", () => counts()["refused"] === 1 && counts()["sent"] === 1);
  const [, first] = batches;
  const endsAt = AT + WRONG.resolveMs;
  assert.deepEqual(first, [{ alert: named("a"), policyName: "p", startsAt: AT, endsAt }]);
  fails = true;
  all.fire(named("c"), "p", AT);
  clock.advance(1_000);
  await until("it has failed", () => counts()["failed"] === 1);
  assert.deepEqual(lines, [
    'warn a pager refused an alert {"pager":"night shift","alert":"bad"}',
    'warn cannot send alerts to a pager {"pager":"night shift","why":"no signal"}',
  ]);
  await all.close();
  assert.equal(closes, 1);
});

/** Answers every batch the same way. */
function receiverThat(answers: "refused" | "sent"): AlertReceiver {
  return {
    name: "",
    kind: { field: "pager", phrase: "a pager" },
    send: async () => answers,
    close: async () => undefined,
  };
}

test("refused alerts are logged once by name; names are forgotten beyond a thousand", async (t) => {
  const { all, clock, counts, lines } = alertsTo(t, [receiverThat("refused")]);
  let fired = 0;
  const fire = async (...names: readonly string[]) => {
    for (const name of names) all.fire(named(name), "p", AT);
    clock.advance(1_000);
    fired += names.length;
    await until("all are settled", () => counts()["refused"] === fired);
  };
  const first = () => lines.filter((line) => line.includes('"name 0"')).length;
  for (let from = 0; from < 1_000; from += 50)
    await fire(...Array.from({ length: 50 }, (_, at) => `name ${from + at}`));
  await fire("name 0");
  assert.equal(first(), 1);
  await fire("one more");
  await fire("name 0");
  assert.equal(first(), 2);
  await all.close();
});

test("a queue has room for one alert, whatever its size", async (t) => {
  const { all, clock, counts } = alertsTo(t, [receiverThat("sent")], undefined, { queueSize: 0 });
  for (const name of ["a", "b"]) all.fire(named(name), "p", AT);
  clock.advance(1_000);
  await until("the last one is sent", () => counts()["sent"] === 1);
  assert.equal(counts()["dropped"], 1);
  await all.close();
});
