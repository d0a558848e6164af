// Requests to agents through the store, and what each fault of the reference (D-15) does here.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { Agents } from "#fleet/calls/agents.ts";
import { Answers } from "#fleet/calls/answers.ts";
import { FunctionRunner, type Functions } from "#fleet/calls/functions.ts";
import { MAX_REPLY_BYTES, MAX_REQUEST_BYTES, writeRequest } from "#fleet/calls/message.ts";
import { Questions } from "#fleet/calls/questions.ts";
import type { Member } from "#fleet/members.ts";
import { realClock } from "#runtime/life/clock.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { fakeClock } from "../../kit/clock.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../../kit/etcd/store.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { storeWith } from "../../kit/sluice/stored.ts";
import { until } from "../../kit/until.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const ECHO = { name: "test.Echo", message: Buffer.from("hello") };

interface AgentOptions {
  readonly id?: string;
  readonly hostname?: string;
  readonly functions?: Functions;
  readonly clock?: Clock;
}

/** An agent that answers `test.Echo` with its id, its host and what it got. */
function agent(t: TestContext, store: Store, options: AgentOptions = {}) {
  const { id = "id-1", hostname = "node1", clock = realClock() } = options;
  const echo = (message: Uint8Array) => Buffer.from(`${id} ${hostname} ${text(message)}`);
  const log = memoryLog();
  const functions = new FunctionRunner(
    options.functions ?? new Map([["test.Echo", echo]]),
    clock,
    log,
  );
  const answers = new Answers({ store, id, hostname, functions, clock, log });
  t.after(() => answers.close());
  return { functions, answers };
}

const member = (id: string, hostname: string): Member => ({
  group: "default",
  address: `${hostname}:8080`,
  hostname,
  services: {},
  id,
});

function controller(t: TestContext, store: Store, clock: Clock = realClock()) {
  const questions = new Questions(store, seededChance(1));
  t.after(() => questions.close());
  const connections = { list: [], has: () => false, ask: () => assert.fail() };
  const members = { list: [], onChange: () => () => undefined };
  return new Agents({ members, questions, connections, clock, log: memoryLog() });
}

const keysOf = async (store: Store) => (await store.list("/rpc/")).entries.map(({ key }) => key);

const faultOf = async (asked: Promise<unknown>): Promise<Fault> =>
  asked.then(
    () => assert.fail("answered"),
    (thrown: unknown) => Fault.from(thrown),
  );

test("a request is answered, and leaves nothing behind", async (t) => {
  const store = memoryStore();
  agent(t, store);
  const asked = controller(t, store);
  assert.equal(text(await asked.ask(member("id-1", "node1"), ECHO)), "id-1 node1 hello");
  assert.deepEqual(asked.counts, { answered: 1, failed: 0 });
  await until("nothing is left", async () => (await keysOf(store)).length === 0);
});

test("D-15: an answer that comes before the request's own commit has returned is not lost", async (t) => {
  const store = memoryStore();
  agent(t, store);
  const finished = Promise.withResolvers<void>();
  const slow = storeWith(store, {
    close: async () => undefined,
    async commit(ops, options) {
      const revision = await store.commit(ops, options);
      const [op] = ops;
      // The request's commit returns only after whoever asked has the answer, and has taken the request away.
      if (op?.kind === "delete") finished.resolve();
      else if (op?.key.startsWith("/rpc/request/")) await finished.promise;
      return revision;
    },
  });
  const asked = controller(t, slow);
  assert.equal(text(await asked.ask(member("id-1", "node1"), ECHO)), "id-1 node1 hello");
});

test("D-15: agents of one host are told apart by id, and `node1` does not answer for `node10`", async (t) => {
  const store = memoryStore();
  const one = agent(t, store, { id: "id-1", hostname: "node1" });
  agent(t, store, { id: "id-10", hostname: "node1" });
  agent(t, store, { id: "id-3", hostname: "node10" });
  const asked = controller(t, store);
  assert.equal(text(await asked.ask(member("id-1", "node1"), ECHO)), "id-1 node1 hello");
  assert.equal(text(await asked.ask(member("id-10", "node1"), ECHO)), "id-10 node1 hello");
  assert.equal(one.functions.counts.answered, 1);
  // As a controller of the reference asks.
  const put = { kind: "put", key: "/rpc/request/node10/c1", value: writeRequest(ECHO) } as const;
  await store.commit([put]);
  await until("it is answered", async () =>
    (await keysOf(store)).includes("/rpc/response/node10/c1"),
  );
  const [entry] = (await store.list("/rpc/response/node10/c1")).entries;
  assert.equal(text(entry?.value ?? Buffer.alloc(0)), "id-3 node10 hello", "the reply as it is");
  assert.equal(one.functions.counts.answered, 1);
  await store.commit([{ kind: "delete", key: "/rpc/request/node10/c1" }]);
  await until("the answer goes with it", async () => (await keysOf(store)).length === 0);
});

test("D-15: errors are answered, with code and message", async (t) => {
  const store = memoryStore();
  agent(t, store, {
    functions: new Map<string, (message: Uint8Array) => Uint8Array>([
      [
        "test.Refuses",
        () => {
          throw new Fault("FAILED_PRECONDITION", "not today");
        },
      ],
      [
        "test.Fails",
        () => {
          throw new Error("secret");
        },
      ],
      ["test.Large", () => Buffer.alloc(MAX_REPLY_BYTES + 1)],
    ]),
  });
  const asked = controller(t, store);
  const ask = (name: string, message = Buffer.alloc(0)) =>
    faultOf(asked.ask(member("id-1", "node1"), { name, message }));
  for (const [fault, code, message] of [
    [await ask("test.Refuses"), "FAILED_PRECONDITION", /^not today$/],
    [await ask("test.Fails"), "INTERNAL", /^internal error$/],
    [await ask("test.Large"), "RESOURCE_EXHAUSTED", /at most 1048576 bytes/],
    [await ask("test.Unknown"), "UNIMPLEMENTED", /"test.Unknown"/],
    [await ask("test.Refuses", Buffer.alloc(MAX_REQUEST_BYTES + 1)), "RESOURCE_EXHAUSTED", /65536/],
  ] as const) {
    assert.equal(fault.code, code);
    assert.match(fault.message, message);
  }
  assert.equal(asked.counts.failed, 5);
  // A controller of the reference gets bytes that are no message, so that its wait ends.
  const value = writeRequest({ name: "test.Refuses", message: Buffer.alloc(0) });
  await store.commit([{ kind: "put", key: "/rpc/request/node1/c1", value }]);
  const found = async () => (await store.list("/rpc/response/node1/c1")).entries;
  await until("it is answered", async () => (await found()).length === 1);
  assert.equal(text((await found())[0]?.value ?? Buffer.alloc(0)), "\u0007not today");
});

test("of two agents with one host name, the first answer counts", async (t) => {
  const store = memoryStore();
  let attempts = 0;
  const counting = storeWith(store, {
    close: async () => undefined,
    async commit(ops, options) {
      const revision = await store.commit(ops, options);
      if (ops.some(({ key }) => key.startsWith("/rpc/response/"))) attempts += 1;
      return revision;
    },
  });
  const slow = Promise.withResolvers<Uint8Array>();
  const answersOf = (id: string, answer: () => Uint8Array | Promise<Uint8Array>) =>
    agent(t, counting, { id, functions: new Map([["test.Echo", answer]]) });
  answersOf("id-1", () => slow.promise);
  answersOf("id-2", () => Buffer.from("first"));
  const value = writeRequest(ECHO);
  await store.commit([{ kind: "put", key: "/rpc/request/node1/c1", value }]);
  await until("one has answered", () => attempts === 1);
  slow.resolve(Buffer.from("second"));
  await until("the other one has tried", () => attempts === 2);
  const [entry] = (await store.list("/rpc/response/node1/c1")).entries;
  assert.equal(text(entry?.value ?? Buffer.alloc(0)), "first");
});

test("an agent of the reference is asked by its host name and answers with the reply alone", async (t) => {
  const store = memoryStore();
  agent(t, store);
  const reply = await controller(t, store).ask(member("", "node1"), ECHO);
  assert.equal(text(reply), "id-1 node1 hello");
});

test("the request of the reference reads as recorded", () => {
  const name = "aperture.cmd.v1.ListFlowControlPointsRequest";
  const recorded =
    "CkB0eXBlLmdvb2dsZWFwaXMuY29tL2FwZXJ0dXJlLmNtZC52MS5MaXN0Rmxvd0NvbnRyb2xQb2ludHNSZXF1ZXN0";
  const written = Buffer.from(writeRequest({ name, message: Buffer.alloc(0) }));
  assert.equal(written.toString("base64").replace(/EgA=$/, ""), recorded);
});

test("an agent that does not answer costs ten seconds, and its request is taken away", async (t) => {
  const store = memoryStore();
  const clock = fakeClock();
  const asked = controller(t, store, clock);
  const fault = faultOf(asked.ask(member("id-9", "away"), ECHO));
  await until("it is asked", async () => (await keysOf(store)).length === 1);
  clock.advance(10_000);
  assert.equal((await fault).code, "DEADLINE_EXCEEDED");
  await until("the request is gone", async () => (await keysOf(store)).length === 0);
  assert.equal(clock.alarms, 0);
});

test("64 requests wait for answers at a time, and none takes longer than ten seconds", async (t) => {
  const store = memoryStore();
  const clock = fakeClock();
  const asked = controller(t, store, clock);
  const stop = new AbortController();
  const first = Array.from({ length: 64 }, (_, at) =>
    faultOf(asked.ask(member(`id-${at}`, "away"), ECHO)),
  );
  const leaver = faultOf(asked.ask(member("leaver", "away"), ECHO, stop.signal));
  const last = Array.from({ length: 65 }, (_, at) =>
    faultOf(asked.ask(member(`last-${at}`, "away"), ECHO)),
  );
  await until("64 are asked", async () => (await keysOf(store)).length === 64);
  // A caller that stops waiting leaves the queue: the requests behind it move up.
  stop.abort();
  assert.equal((await leaver).code, "CANCELLED");
  const asks = async () => (await keysOf(store)).map((key) => key.split("/")[3]);
  assert.ok(
    (await asks()).every((id) => /^id-/.test(id ?? "")),
    "nobody had a turn but the first",
  );
  clock.advance(10_000);
  for (const fault of await Promise.all([...first, ...last]))
    assert.equal(fault.code, "DEADLINE_EXCEEDED");
  await until("nothing is left", async () => (await keysOf(store)).length === 0);
  assert.equal(clock.alarms, 0);
  // Every turn was given back.
  const again = Array.from({ length: 64 }, (_, at) =>
    asked.ask(member(`again-${at}`, "away"), ECHO).catch((thrown: unknown) => Fault.from(thrown)),
  );
  await until("64 are asked again", async () => (await keysOf(store)).length === 64);
  // A turn that becomes free goes to the one that waits longest.
  agent(t, store, { id: "next", hostname: "next" });
  agent(t, store, { id: "again-0", hostname: "again" });
  assert.equal(text(await asked.ask(member("next", "next"), ECHO)), "next next hello");
  await until("63 wait", async () => (await keysOf(store)).length === 63);
  const two = ["one", "two"].map((id) => faultOf(asked.ask(member(id, "away"), ECHO)));
  await until("one of two has a turn", async () => (await keysOf(store)).length >= 64);
  for (let turns = 0; turns < 10; turns++) await new Promise((done) => setImmediate(done));
  assert.equal((await keysOf(store)).length, 64, "a turn that was handed on is not free as well");
  clock.advance(10_000);
  await Promise.all([...again, ...two]);
});

test("ten thousand requests wait for their turn, and further ones are refused", async (t) => {
  let alarms = 0;
  const clock: Clock = {
    ...fakeClock(),
    alarm: () => {
      alarms += 1;
      return () => {
        alarms -= 1;
      };
    },
  };
  const asked = controller(t, memoryStore(), clock);
  const stop = new AbortController();
  const ask = () => faultOf(asked.ask(member("id-9", "away"), ECHO, stop.signal));
  const all = Array.from({ length: 64 + 10_000 }, ask);
  const refused = await ask();
  assert.equal(refused.code, "RESOURCE_EXHAUSTED");
  assert.match(refused.message, /too many requests to agents wait for their turn/);
  assert.equal(asked.counts.failed, 1, "none of the others was");
  stop.abort();
  const codes = new Set((await Promise.all(all)).map(({ code }) => code));
  assert.deepEqual([...codes], ["CANCELLED"]);
  assert.equal(alarms, 0);
});

test("whoever stops waiting cancels, and a controller that stops fails what waits", async (t) => {
  const store = memoryStore();
  const asked = controller(t, store);
  const stop = new AbortController();
  const fault = faultOf(asked.ask(member("id-9", "away"), ECHO, stop.signal));
  await until("it is asked", async () => (await keysOf(store)).length === 1);
  stop.abort();
  assert.equal((await fault).code, "CANCELLED");
  await until("the request is gone", async () => (await keysOf(store)).length === 0);
  const questions = new Questions(store, seededChance(2));
  const waiting = faultOf(
    questions.ask(member("id-9", "away"), ECHO, new AbortController().signal),
  );
  await until("it is asked", async () => (await keysOf(store)).length === 1);
  await questions.close();
  assert.equal((await waiting).code, "CANCELLED");
});

test("an agent runs 32 requests at a time and refuses further ones; a slow one is answered after 30 s", async (t) => {
  const store = memoryStore();
  const clock = fakeClock();
  const { functions } = agent(t, store, {
    clock,
    functions: new Map([["test.Never", () => new Promise<Uint8Array>(() => undefined)]]),
  });
  const runs = Array.from({ length: 32 }, () =>
    functions.run(writeRequest({ name: "test.Never", message: Buffer.alloc(0) })),
  );
  const one = await functions.run(writeRequest({ name: "test.Never", message: Buffer.alloc(0) }));
  assert.equal("fault" in one && one.fault.code, "RESOURCE_EXHAUSTED");
  clock.advance(30_000);
  for (const run of await Promise.all(runs))
    assert.equal("fault" in run && run.fault.code, "DEADLINE_EXCEEDED");
  assert.deepEqual(functions.counts, { answered: 0, failed: 32, refused: 1 });
});

test("all agents are asked at once; those that fail are told apart from those that answer", async (t) => {
  const store = memoryStore();
  const ids = Array.from({ length: 100 }, (_, at) => `id-${at}`);
  for (const id of ids.slice(0, 99)) agent(t, store, { id, hostname: id });
  agent(t, store, { id: "id-99", hostname: "bad", functions: new Map() });
  const all = ids.map((id) => member(id, id));
  const { replies, failed } = await controller(t, store).askAll(all, ECHO);
  assert.equal(replies.length, 99);
  assert.equal(new Set(replies.map(([, reply]) => text(reply))).size, 99);
  assert.deepEqual(
    failed.map(([{ id }, { code }]) => [id, code]),
    [["id-99", "UNIMPLEMENTED"]],
  );
});

test("etcd: requests and answers carry a lease of 30 s and are gone afterwards", async (t) => {
  const etcd = await startEtcd(t);
  const settings = etcdSettings(etcd.endpoints);
  const own = openEtcd(t, settings);
  const leases: string[] = [];
  const watching = new AbortController();
  t.after(() => watching.abort());
  const seen = (async () => {
    for await (const { puts } of own.watch(["/rpc/"], watching.signal)) {
      for (const { key } of puts) {
        const found = JSON.parse(await etcd.ctl("get", `aperture${key}`, "-w", "json"));
        leases.push(...(found.kvs ?? []).map((kv: { lease?: number }) => `${kv.lease ?? 0}`));
      }
    }
  })();
  const { functions } = agent(t, openEtcd(t, settings), {
    functions: new Map([
      [
        "test.Echo",
        async (message) => {
          // Long enough for the test to look at the keys.
          await until("the request was seen", () => leases.length > 0);
          return message;
        },
      ],
    ]),
  });
  const asked = controller(t, openEtcd(t, settings));
  assert.equal(text(await asked.ask(member("id-1", "node1"), ECHO)), "hello");
  assert.ok(leases.length > 0 && leases.every((lease) => lease !== "0"), leases.join());
  for (const line of (await etcd.ctl("lease", "list")).split("\n").slice(1)) {
    if (line === "") continue;
    assert.match(await etcd.ctl("lease", "timetolive", line), /granted with TTL\(30s\)/);
  }
  await until(
    "nothing is left",
    async () => (await etcd.ctl("get", "--prefix", "aperture/rpc", "--keys-only")) === "",
  );
  assert.equal(functions.counts.answered, 1);
  watching.abort();
  await seen;
});

test("etcd: an agent whose watch is interrupted answers what was asked meanwhile", async (t) => {
  const etcd = await startEtcd(t);
  const settings = etcdSettings(etcd.endpoints);
  agent(t, openEtcd(t, settings));
  const asked = controller(t, openEtcd(t, settings));
  assert.equal(text(await asked.ask(member("id-1", "node1"), ECHO)), "id-1 node1 hello");
  await etcd.members[0]?.kill();
  const answer = asked.ask(member("id-1", "node1"), ECHO);
  await etcd.members[0]?.start();
  assert.equal(text(await answer), "id-1 node1 hello");
});
