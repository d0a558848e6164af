// The translation of commits to transactions; the client only records the requests.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { EtcdClient, Request } from "#store/etcd/client.ts";
import { Keys } from "#store/etcd/keys.ts";
import { list } from "#store/etcd/list.ts";
import { commit, groupsOf } from "#store/etcd/transaction.ts";
import type { Op } from "#store/store.ts";

const keys = new Keys("");

const put = (key: string, bytes = 1): Op => ({ kind: "put", key, value: new Uint8Array(bytes) });
const drop = (key: string): Op => ({ kind: "delete", key });
const numbered = (count: number, op: (key: string) => Op) =>
  Array.from({ length: count }, (_, at) => op(`/${at}`));

/** Replies to calls in order. */
function clientOf(...replies: readonly (object | Fault)[]) {
  const asked: { readonly request: Request<"txn"> & Request<"range">; readonly options: object }[] =
    [];
  const client = {
    call: async (_method: string, request: Request<"txn"> & Request<"range">, options: object) => {
      const reply = replies[asked.length];
      asked.push({ request, options });
      if (reply instanceof Fault) throw reply;
      return reply;
    },
  };
  return { asked, client: client as unknown as EtcdClient };
}

const done = (revision: number) => ({ succeeded: true, header: { revision: BigInt(revision) } });

test("a transaction has at most 128 operations, puts before deletes, the last one of each key", () => {
  const sizes = (ops: readonly Op[]) => groupsOf(ops, keys).map((group) => group.length);
  assert.deepEqual(sizes([]), []);
  assert.deepEqual(sizes(numbered(128, put)), [128]);
  assert.deepEqual(sizes(numbered(129, put)), [128, 1]);
  const [group = []] = groupsOf([drop("/c"), put("/a"), drop("/a"), put("/b"), put("/c")], keys);
  assert.deepEqual(
    group.map(({ kind, key }) => `${kind} ${key}`),
    ["put /c", "put /b", "delete /a"],
  );
});

test("a transaction is at most 1.4 MB, and so is an operation", () => {
  const most = 1_400_000 - 34;
  const sizes = (...bytes: readonly number[]) =>
    groupsOf(
      bytes.map((size, at) => put(`/${at}`, size)),
      keys,
    ).map((group) => group.length);
  assert.deepEqual(sizes(most), [1]);
  assert.throws(() => sizes(most + 1), /wanted a value of at most 1400000 bytes.* got 1400001/);
  const half = 700_000 - 34;
  assert.deepEqual(sizes(half, half), [2]);
  assert.deepEqual(sizes(half, half + 1), [1, 1]);
  assert.deepEqual(sizes(most, half, half, half), [1, 2, 1]);
});

test("each transaction of a large commit is under the guards, which follow what the last one wrote", async () => {
  const { asked, client } = clientOf(done(11), done(12), done(13));
  const ops = [put("/guarded"), ...numbered(250, put), drop("/gone")];
  const guards = [
    { key: "/guarded", revision: 3 },
    { key: "/gone", revision: 4 },
    { key: "/other", revision: 5 },
  ];
  const context = { client, keys, guards, lease: 7n, timeoutMs: 9 };
  assert.equal(await commit([...ops, ...numbered(20, (key) => drop(`/d${key}`))], context), 13);
  assert.deepEqual(
    asked.map(({ request }) => request.compare?.map(({ modRevision }) => Number(modRevision))),
    [
      [3, 4, 5],
      [11, 4, 5],
      [11, 0, 5],
    ],
  );
  assert.deepEqual(
    asked.map(({ options }) => options),
    Array(3).fill({ repeatable: false, timeoutMs: 9 }),
  );
  const [first] = asked[0]?.request.success ?? [];
  assert.equal(first?.requestPut?.lease, 7n);
});

test("a guard that does not hold writes nothing; one that ceases to hold is a fault that says how far it came", async () => {
  const refused = { succeeded: false, header: undefined };
  const guards = [{ key: "/g", revision: 1 }];
  const base = { keys, guards, lease: 0n };
  assert.equal(await commit([put("/a")], { ...base, ...clientOf(refused) }), undefined);
  await assert.rejects(
    commit(numbered(129, put), { ...base, ...clientOf(done(2), refused) }),
    (thrown: Fault) => thrown.code === "ABORTED" && /1 of 2 parts/.test(thrown.message),
  );
  const many = Array.from({ length: 129 }, (_, at) => ({ key: `/${at}`, revision: 1 }));
  await assert.rejects(
    commit([], { ...base, ...clientOf(), guards: many }),
    /at most 128 guards, got 129/,
  );
  const most = { ...base, ...clientOf(done(2)), guards: many.slice(1) };
  assert.equal(await commit([], most), 2, "a commit may consist of guards");
});

test("without guards a transaction may be repeated", async () => {
  const { asked, client } = clientOf(done(2));
  await commit([put("/a")], { client, keys, guards: [], lease: 0n });
  assert.deepEqual(asked[0]?.options, { repeatable: true, timeoutMs: undefined });
});

test("a list goes on behind the last key of a page, in one state", async () => {
  const page = (more: boolean, ...names: readonly string[]) => ({
    header: { revision: 40n, clusterId: 6n },
    kvs: names.map((name) => ({ key: keys.bytes(name), value: new Uint8Array(), modRevision: 4n })),
    more,
  });
  const { asked, client } = clientOf(page(true, "/a", "/b"), page(false, "/c"));
  const found: string[] = [];
  const state = await list(client, keys, "/", ({ key, revision }) =>
    found.push(`${key}=${revision}`),
  );
  assert.deepEqual(state, { revision: 40, clusterId: 6n });
  assert.deepEqual(found, ["/a=4", "/b=4", "/c=4"]);
  assert.deepEqual(asked[1]?.options, { repeatable: true, timeoutMs: undefined });
  assert.deepEqual(
    asked.map(({ request: { key, limit, revision } }) => [
      String(key),
      Number(limit),
      Number(revision),
    ]),
    [
      ["/", 512, 0],
      ["/b\0", 512, 40],
    ],
  );
});

test("a page that is too large for one message is read in smaller ones, down to one entry", async () => {
  const large = new Fault("RESOURCE_EXHAUSTED", "grpc: received message larger than max");
  const empty = { header: { revision: 1n, clusterId: 6n }, kvs: [], more: false };
  const { asked, client } = clientOf(large, large, empty);
  await list(client, keys, "/", () => assert.fail());
  const limits = (of: typeof asked) => of.map(({ request }) => Number(request.limit));
  assert.deepEqual(limits(asked), [512, 128, 32]);
  const never = clientOf(...Array(9).fill(large));
  await assert.rejects(
    list(never.client, keys, "/", () => assert.fail()),
    large,
  );
  assert.deepEqual(limits(never.asked), [512, 128, 32, 8, 2, 1]);
  const other = clientOf(new Fault("UNAVAILABLE", "away"));
  await assert.rejects(
    list(other.client, keys, "/", () => assert.fail()),
    /away/,
  );
  assert.equal(other.asked.length, 1);
});
