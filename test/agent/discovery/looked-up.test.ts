// Look-ups in the background: what is asked and when, what is remembered and for how long, and the bounds of both.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { Entity } from "#base/net/entity.ts";
import {
  FOUND_MS,
  LookedUp,
  MAX_ADDRESSES,
  MAX_PER_SECOND,
  ROUND_MS,
} from "../../../src/agent/discovery/looked-up.ts";
import { fakeClock } from "../../kit/clock.ts";

const turn = () => new Promise<void>((done) => setImmediate(done));

function entity(ipAddress: string, service: string): Entity {
  const services = [service];
  return { uid: "u", ipAddress, name: service, namespace: "a", nodeName: "n", services };
}

function bench() {
  const clock = fakeClock();
  const there = new Map<string, string>();
  const asked: string[] = [];
  const faults: (string | undefined)[] = [];
  const state = { isAway: false, isUnsure: false, held: [] as (() => void)[] | undefined };
  state.held = undefined;
  const lookedUp = new LookedUp({
    clock,
    async find(address) {
      asked.push(address);
      if (state.held !== undefined) await new Promise<void>((resolve) => state.held?.push(resolve));
      if (state.isAway) throw new Fault("UNAVAILABLE", "etcd is away");
      const service = there.get(address);
      return service === undefined ? undefined : entity(address, service);
    },
    isUnsure: () => state.isUnsure,
    reached: (fault) => void faults.push(fault?.message),
  });
  /** Lets a round take place, and its look-ups end. */
  const round = async (ms = ROUND_MS) => {
    clock.advance(ms);
    await turn();
  };
  return { clock, there, asked, faults, state, lookedUp, round };
}

test("the first check of an address knows nothing and waits for nothing; the next one knows it", async () => {
  const { lookedUp, there, asked } = bench();
  there.set("10.0.0.1", "web");
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), []);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), [], "one look-up, however many ask");
  await turn();
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["web"]);
  assert.equal(lookedUp.at("10.0.0.1")?.name, "web");
  assert.deepEqual(asked, ["10.0.0.1"]);
  lookedUp.close();
});

test("only addresses are looked up, because other text would be a part of a key", async () => {
  const { lookedUp, asked } = bench();
  for (const text of ["", "/", "10.0.0.1/", "10.0.0", "../config", "web", "10.0.0.1:80"])
    assert.deepEqual(lookedUp.byAddress(text), [], text);
  await turn();
  assert.deepEqual(asked, []);
  lookedUp.byAddress("2001:db8::1");
  await turn();
  assert.deepEqual(asked, ["2001:db8::1"]);
  lookedUp.close();
});

test("what is used is renewed, and so an address that another pod took has its services; the rest is forgotten", async () => {
  const { lookedUp, there, asked, round, clock } = bench();
  there.set("10.0.0.1", "web").set("10.0.0.2", "db");
  for (const address of ["10.0.0.1", "10.0.0.2"]) lookedUp.byAddress(address);
  await turn();
  there.set("10.0.0.1", "other");
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["web"]);
  await round(FOUND_MS - ROUND_MS);
  assert.equal(asked.length, 2, "not before its time");
  await round();
  assert.deepEqual(asked, ["10.0.0.1", "10.0.0.2", "10.0.0.1"]);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["other"]);
  assert.equal(lookedUp.at("10.0.0.2"), undefined, "nobody asked for it any more");
  there.delete("10.0.0.1");
  await round(FOUND_MS);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), [], "the pod is gone");
  assert.equal(lookedUp.known, 0);
  // Without users nothing is left to do.
  await round(FOUND_MS);
  await round(FOUND_MS);
  assert.equal(clock.alarms, 0);
});

test("where nothing was found it is tried again soon, and then more and more rarely", async () => {
  const { lookedUp, there, asked, round, clock } = bench();
  const times: number[] = [];
  const start = clock.now();
  lookedUp.byAddress("10.0.0.1");
  await turn();
  while (clock.now() - start < 4 * FOUND_MS) {
    const before = asked.length;
    lookedUp.byAddress("10.0.0.1");
    await round(1_000);
    if (asked.length > before) times.push(Math.round((clock.now() - start) / 1_000));
  }
  assert.deepEqual(times, [5, 15, 35, 75, 135, 195]);
  there.set("10.0.0.1", "web");
  lookedUp.byAddress("10.0.0.1");
  await round(FOUND_MS);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["web"]);
  lookedUp.close();
});

test("while the store is away or lost its data, nothing that is known is forgotten", async () => {
  const { lookedUp, there, state, round, faults } = bench();
  there.set("10.0.0.1", "web").set("10.0.0.2", "db");
  for (const address of ["10.0.0.1", "10.0.0.2"]) lookedUp.byAddress(address);
  await turn();
  Object.assign(state, { isAway: true, isUnsure: true });
  lookedUp.byAddress("10.0.0.1");
  for (let rounds = 0; rounds < 30; rounds++) await round();
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["web"], "used");
  assert.deepEqual(lookedUp.byAddress("10.0.0.2"), ["db"], "not used");
  assert.ok(lookedUp.counts.failed > 0);
  assert.equal(faults.at(-1), "etcd is away");
  // It is back, and empty.
  state.isAway = false;
  there.clear();
  await round(FOUND_MS);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), ["web"]);
  assert.equal(faults.at(-1), undefined);
  state.isUnsure = false;
  await round(FOUND_MS);
  assert.deepEqual(lookedUp.byAddress("10.0.0.1"), []);
  lookedUp.close();
});

test("few are looked up at a time and in a second, few are remembered, and what is left out is counted", async () => {
  const { lookedUp, there, asked, state, clock } = bench();
  const address = (at: number) => `10.1.${at >> 8}.${at & 255}`;
  for (let at = 0; at < 10_000; at++) there.set(address(at), "web");
  state.held = [];
  for (let at = 0; at < 1_000; at++) lookedUp.byAddress(address(at));
  assert.equal(asked.length, 8, "at a time");
  assert.equal(lookedUp.counts.left_out, 1_000 - MAX_PER_SECOND);
  const { held } = state;
  state.held = undefined;
  for (const release of held ?? []) release();
  await turn();
  assert.equal(asked.length, MAX_PER_SECOND);
  for (let at = 0; at < MAX_ADDRESSES + 500; at++) {
    if (at % MAX_PER_SECOND === 0) clock.advance(1_000);
    lookedUp.byAddress(address(2_000 + at));
    // One that is asked for stays.
    lookedUp.byAddress(address(0));
    await turn();
  }
  const before = asked.length;
  clock.advance(1_000);
  // The oldest of those that nobody used gave way: all others, and the one that is asked for, are known.
  for (const at of [0, 2_000 + MAX_ADDRESSES + 499, 2_000 + 600]) lookedUp.byAddress(address(at));
  await turn();
  assert.equal(asked.length, before);
  lookedUp.byAddress(address(2_000));
  await turn();
  assert.deepEqual(asked.slice(before), [address(2_000)]);
  lookedUp.close();
});
