// One key for each address in the store, of which only those are written that differ.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { Entity } from "#base/net/entity.ts";
import { memoryStore } from "#store/memory.ts";
import type { Op, Store } from "#store/store.ts";
import { MAX_SERVICES, readEntity, writeEntity } from "#sync/entities.ts";
import { DISCOVERED, DISCOVERY, ENTITIES, entityKey, entityPrefix } from "#sync/keys.ts";
import { EntityPublisher } from "../../../src/controller/discovery/entity-publisher.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { storeWith } from "../../kit/sluice/stored.ts";
import { until } from "../../kit/until.ts";

function entity(ipAddress: string, name: string, services: readonly string[] = [`${name}.a`]) {
  return { uid: `u-${name}`, ipAddress, name, namespace: "a", nodeName: "n", services };
}

async function bench(t: TestContext, before: readonly Entity[] = []) {
  const store = memoryStore();
  const ops = before.map((each) => ({
    kind: "put" as const,
    key: entityKey(each.ipAddress),
    value: writeEntity(each),
  }));
  if (ops.length > 0) await store.commit(ops);
  const commits: (readonly Op[])[] = [];
  const state = { fails: false, listFails: false, watchFails: false };
  const watched: Store = storeWith(store, {
    async commit(each, options) {
      if (state.fails) throw new Fault("UNAVAILABLE", "the store is away");
      commits.push(each);
      return store.commit(each, options);
    },
    watch(prefixes, signal) {
      if (state.watchFails) throw new Fault("PERMISSION_DENIED", "the store lets nobody watch");
      return store.watch(prefixes, signal);
    },
    async list(prefix, options) {
      if (state.listFails) throw new Fault("UNAVAILABLE", "the store is away");
      return store.list(prefix, options);
    },
  });
  const clock = fakeClock();
  const known = new Map<string, Entity>();
  const faults: (string | undefined)[] = [];
  const log = memoryLog();
  const publisher = new EntityPublisher({
    store: watched,
    clock,
    log,
    at: (address) => known.get(address),
    written: (fault) => void faults.push(fault?.message),
  });
  t.after(() => publisher.close());
  const begin = () => publisher.begin(() => known.values());
  const know = (...all: readonly Entity[]) => {
    for (const each of all) known.set(each.ipAddress, each);
    for (const each of all) publisher.change(each.ipAddress);
  };
  const stored = async () => {
    const { entries } = await store.list(ENTITIES);
    return new Map(
      entries.map(({ value }) => readEntity(value)).map((each) => [each.ipAddress, each.name]),
    );
  };
  /** The keys of each commit. */
  const written = () => commits.map((each) => each.map(({ key }) => key));
  return {
    store,
    state,
    clock,
    known,
    publisher,
    begin,
    know,
    stored,
    written,
    commits,
    faults,
    log,
  };
}

test("the prefix of an address is that of no other", () => {
  assert.ok(!entityKey("10.0.0.10").startsWith(entityPrefix("10.0.0.1")));
  assert.ok(entityKey("10.0.0.1").startsWith(entityPrefix("10.0.0.1")));
  assert.ok(entityKey("10.0.0.1").startsWith(DISCOVERY));
});

test("a leader adopts what it finds: it writes what differs, deletes what no pod owns, and says when all is there", async (t) => {
  const same = entity("10.0.0.1", "web");
  const { begin, know, stored, written, publisher } = await bench(t, [
    same,
    entity("10.0.0.2", "gone"),
    entity("10.0.0.3", "old"),
  ]);
  know(same, entity("10.0.0.3", "new"), entity("2001:db8::1", "six"));
  await begin();
  assert.deepEqual(
    await stored(),
    new Map([
      ["10.0.0.1", "web"],
      ["10.0.0.3", "new"],
      ["2001:db8::1", "six"],
    ]),
  );
  assert.deepEqual(written(), [
    [entityKey("10.0.0.3"), entityKey("2001:db8::1")],
    [entityKey("10.0.0.2")],
    [DISCOVERED],
  ]);
  assert.equal(publisher.published, 3);
});

test("one change writes one key, and what is as it was is not written", async (t) => {
  const { begin, know, written, clock, stored, known, publisher } = await bench(t);
  const pods = Array.from({ length: 100 }, (_, at) => entity(`10.0.0.${at}`, `pod-${at}`));
  know(...pods);
  await begin();
  const before = written().length;
  // An EndpointSlice names all of its pods again when one of them changes.
  know(...pods.map((each) => ({ ...each })), entity("10.0.0.7", "pod-7", ["web.a", "shop.a"]));
  clock.advance(1_000);
  await until("it is written", () => written().length > before);
  assert.deepEqual(written().slice(before), [[entityKey("10.0.0.7")]]);
  known.delete("10.0.0.8");
  publisher.change("10.0.0.8");
  clock.advance(1_000);
  await until("it is gone", async () => !(await stored()).has("10.0.0.8"));
  assert.deepEqual(written().slice(before + 1), [[entityKey("10.0.0.8")]]);
  assert.equal(publisher.published, 99);
});

test("a pod that moves from one object to another is not gone in between", async (t) => {
  const { begin, know, written, clock, known, publisher } = await bench(t);
  const pod = entity("10.0.0.1", "web");
  know(pod);
  await begin();
  const before = written().length;
  known.delete(pod.ipAddress);
  publisher.change(pod.ipAddress);
  know(pod, entity("10.0.0.2", "other"));
  clock.advance(1_000);
  await until("the rest is written", () => written().length > before);
  assert.deepEqual(written().slice(before), [[entityKey("10.0.0.2")]]);
});

test("while the store takes nothing, it is tried again with the latest", async (t) => {
  const { begin, know, state, clock, stored, faults } = await bench(t);
  await begin();
  state.fails = true;
  know(entity("10.0.0.1", "web"));
  clock.advance(1_000);
  await until("it says so", () => faults.at(-1) === "the store is away");
  know(entity("10.0.0.1", "shop"));
  clock.advance(1_000);
  state.fails = false;
  await until("it is written", async () => {
    clock.advance(5_000);
    return (await stored()).get("10.0.0.1") === "shop";
  });
  await until("it says so again", () => faults.at(-1) === undefined);
});

test("a store that cannot be read is asked again before anything is written", async (t) => {
  const { begin, know, state, clock, stored, written, faults } = await bench(t, [
    entity("10.0.0.2", "gone"),
  ]);
  state.listFails = true;
  know(entity("10.0.0.1", "web"));
  const begun = begin();
  await until("it says so", () => faults.at(-1) === "the store is away");
  assert.deepEqual(written(), []);
  state.listFails = false;
  // Known only since the beginning.
  know(entity("10.0.0.3", "late"));
  clock.advance(5_000);
  await begun;
  assert.deepEqual([...(await stored()).keys()], ["10.0.0.1", "10.0.0.3"]);
});

test("what somebody else deletes is written again", async (t) => {
  const { begin, know, store, stored, log } = await bench(t);
  know(entity("10.0.0.1", "web"));
  await begin();
  await store.commit([
    { kind: "delete", key: entityKey("10.0.0.1") },
    { kind: "delete", key: DISCOVERED },
  ]);
  await until("it is there", async () => (await stored()).has("10.0.0.1"));
  await until("all of it", async () => (await store.list(DISCOVERED)).entries.length === 1);
  assert.match(log.lines.map(({ message }) => message).join("\n"), /somebody deleted services/);
});

test("a watch that ends is begun again, and restores what was deleted meanwhile", async (t) => {
  const { store, state, clock, know, begin, stored, log } = await bench(t);
  know(entity("10.0.0.1", "a"));
  state.watchFails = true;
  await begin();
  await until("the watch has ended", () => log.lines.some(({ level }) => level === "error"));
  await store.commit([{ kind: "delete", key: entityKey("10.0.0.1") }]);
  state.watchFails = false;
  clock.advance(5_000);
  await until("the deletion is made up for", async () => (await stored()).size === 1);
});

test("an end leaves everything in the store", async (t) => {
  const { begin, know, publisher, stored, clock } = await bench(t);
  know(entity("10.0.0.1", "web"));
  await begin();
  await publisher.close();
  know(entity("10.0.0.2", "late"));
  clock.advance(10_000);
  assert.deepEqual([...(await stored()).keys()], ["10.0.0.1"]);
});

test("the services of one address are bounded", async (t) => {
  const { begin, know, store } = await bench(t);
  const services = Array.from({ length: MAX_SERVICES + 10 }, (_, at) => `s${at}.a`);
  know(entity("10.0.0.1", "web", services));
  await begin();
  const { entries } = await store.list(ENTITIES);
  const [entry = assert.fail()] = entries;
  assert.deepEqual(readEntity(entry.value).services, services.slice(0, MAX_SERVICES));
});
