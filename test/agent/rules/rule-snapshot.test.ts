// An agent that starts while the store is away judges by the rules that it saw last: what is written to the file and when,
// what is read from it, and what happens when the store answers.

import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { RuleSnapshot } from "#agent/rules/rule-snapshot.ts";
import type { StoreUpdate } from "#store/store.ts";
import { keepRules } from "#sync/follow/rule-keeper.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

const OWNER = { group: "default", namespace: "aperture" };
const bytes = (text: string) => new TextEncoder().encode(text);

function batch(
  puts: Readonly<Record<string, string>>,
  deletes: readonly string[] = [],
): StoreUpdate {
  const written = { revision: 7, created: 7, leased: false };
  const entries = Object.entries(puts).map(([key, value]) => ({
    key,
    value: bytes(value),
    ...written,
  }));
  return { revision: 7, puts: entries, deletes };
}

/** The batches of a store that a test feeds. */
function feed() {
  const waiting: StoreUpdate[] = [];
  let wake = Promise.withResolvers<void>();
  let failure: Error | undefined;
  return {
    push(next: StoreUpdate) {
      waiting.push(next);
      wake.resolve();
    },
    fail(thrown: Error) {
      failure = thrown;
      wake.resolve();
    },
    async *batches(): AsyncIterable<StoreUpdate> {
      for (;;) {
        await wake.promise;
        wake = Promise.withResolvers();
        if (failure !== undefined) throw failure;
        yield* waiting.splice(0);
      }
    },
  };
}

/** An agent that follows a store and keeps a snapshot. */
function agent(t: TestContext, path: string, owner = OWNER) {
  const clock = fakeClock();
  const { lines, ...log } = memoryLog();
  const inUse: (number | undefined)[] = [];
  const snapshot = new RuleSnapshot({
    path,
    owner,
    clock,
    log,
    inUse: (savedAt) => void inUse.push(savedAt),
  });
  const store = feed();
  const seen: StoreUpdate[] = [];
  let thrown: unknown;
  const following = (async () => {
    for await (const next of snapshot.prepend(store.batches())) {
      seen.push(next);
      snapshot.record(next);
    }
  })().catch((cause: unknown) => {
    thrown = cause;
  });
  t.after(() => snapshot.close());
  const see = (count: number) => until(`${count} batches`, () => seen.length >= count);
  const writes = () => {
    const values = new Map<string, number>();
    snapshot.collect({
      number: (name: string, labels: readonly string[], value: number) =>
        void values.set([name, ...labels].join(" "), value),
    } as unknown as Parameters<typeof snapshot.collect>[0]);
    return {
      success: values.get("sluice_rule_snapshots_total success") ?? 0,
      failure: values.get("sluice_rule_snapshots_total failure") ?? 0,
      standing: values.get("sluice_rules_from_snapshot") ?? 0,
    };
  };
  const wrote = (count: number) => until(`${count} writes`, () => writes().success >= count);
  const messages = () => lines.map(({ message }) => message);
  return {
    clock,
    snapshot,
    store,
    seen,
    see,
    inUse,
    writes,
    wrote,
    messages,
    following,
    thrown: () => thrown,
  };
}

const entriesOf = ({ puts }: StoreUpdate) =>
  Object.fromEntries(puts.map(({ key, value }) => [key, new TextDecoder().decode(value)]));

/** An agent that saw these rules and has ended. */
async function ended(t: TestContext, path: string, rules: Readonly<Record<string, string>>) {
  const made = agent(t, path);
  made.store.push(batch(rules));
  await made.see(1);
  await made.snapshot.close();
  assert.ok(existsSync(path));
}

test("rules are written some seconds after they changed, once, and only for the owner", async (t) => {
  const path = join(folderOf(t), "rules");
  const { store, see, clock, writes, wrote } = agent(t, path);
  store.push(batch({ a: "1" }));
  await see(1);
  clock.advance(4_999);
  assert.equal(existsSync(path), false);
  store.push(batch({ b: "2" }, ["a"]));
  await see(2);
  clock.advance(1);
  await wrote(1);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const text = readFileSync(path, "utf8");
  assert.match(text, /"key":"b"/);
  assert.doesNotMatch(text, /"key":"a"/);
  clock.advance(3_600_000);
  assert.deepEqual(writes(), { success: 1, failure: 0, standing: 0 }, "nothing has changed");
  store.push(batch({ c: "3" }));
  await see(3);
  clock.advance(5_000);
  await wrote(2);
  assert.deepEqual(readdirSync(join(path, "..")), ["rules"], "no other file is left");
});

test("a store that answers in time makes the snapshot unnecessary", async (t) => {
  const path = join(folderOf(t), "rules");
  await ended(t, path, { old: "1" });
  const { store, see, seen, inUse, clock } = agent(t, path);
  clock.advance(999);
  store.push(batch({ a: "1" }));
  await see(1);
  assert.deepEqual(seen, [batch({ a: "1" })]);
  assert.deepEqual(inUse, []);
});

test("while the store does not answer, the snapshot stands in; then the store's state replaces it", async (t) => {
  const path = join(folderOf(t), "rules");
  await ended(t, path, { a: "1", b: "2", "/config/complete": "x" });
  const { store, see, seen, inUse, clock, writes, messages, wrote } = agent(t, path);
  clock.advance(1_000);
  await see(1);
  const first = seen[0] ?? assert.fail();
  assert.deepEqual(entriesOf(first), { a: "1", b: "2", "/config/complete": "x" });
  assert.equal(first.reset, undefined);
  assert.deepEqual(inUse, [1_700_000_000_000]);
  assert.equal(writes().standing, 1);
  assert.match(messages().join(), /the store does not answer: judging by the rules of 2023-11-14T/);
  clock.advance(60_000);
  assert.equal(writes().success, 0, "what was read is not written again");

  store.push(batch({ b: "3", c: "4" }));
  await see(2);
  const second = seen[1] ?? assert.fail();
  assert.deepEqual(entriesOf(second), { b: "3", c: "4" });
  assert.deepEqual(second.deletes, ["a", "/config/complete"]);
  assert.equal(second.reset, true, "it need not be the history that the snapshot is from");
  await until("the store counts again", () => inUse.length === 2);
  assert.deepEqual(inUse, [1_700_000_000_000, undefined]);
  store.push(batch({ d: "5" }));
  await see(3);
  assert.deepEqual(seen[2], batch({ d: "5" }));
  clock.advance(5_000);
  await wrote(1);
  assert.equal(writes().standing, 0);
});

test("a file that cannot be used is reported, and the agent waits for the store", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "rules");
  await ended(t, path, { a: "1", b: "2" });
  const good = readFileSync(path, "utf8");
  const [head = "", first = ""] = good.split("\n");
  const cases: readonly (readonly [what: string, text: string, why: RegExp])[] = [
    ["empty", "", /version 1, got none/],
    ["cut off", good.slice(0, -30), /something else|does not match/],
    ["a line is missing", good.replace(`${first}\n`, ""), /does not match its digest/],
    ["changed", good.replace('"key":"b"', '"key":"c"'), /does not match its digest/],
    ["newer", good.replace('"version":1', '"version":2'), /version 1, got 2/],
    ["binary", "\u0000\u0001\n\u0002\n", /something else/],
    ["not a snapshot", `${head.slice(0, 5)}\n`, /something else|got none/],
  ];
  for (const [what, text, why] of cases) {
    writeFileSync(path, text);
    const { clock, messages, store, see, seen, inUse } = agent(t, path);
    clock.advance(1_000);
    await until(what, () => messages().length > 0);
    assert.match(messages()[0] ?? "", /there is no snapshot to judge by: /, what);
    assert.match(messages()[0] ?? "", why, what);
    store.push(batch({ z: "1" }));
    await see(1);
    assert.deepEqual(seen, [batch({ z: "1" })], what);
    assert.deepEqual(inUse, [], what);
  }
  writeFileSync(path, good);
  for (const owner of [
    { ...OWNER, group: "other" },
    { ...OWNER, namespace: "other" },
  ]) {
    const { clock, messages } = agent(t, path, owner);
    clock.advance(1_000);
    await until("it is refused", () => messages().length > 0);
    assert.match(messages()[0] ?? "", /wanted rules of the (group|namespace) other, got "/);
  }
});

test("a folder that is not there or full is reported once, and the file is written when it can be", async (t) => {
  const folder = join(folderOf(t), "inside");
  const path = join(folder, "rules");
  const { store, see, clock, writes, wrote, messages } = agent(t, path);
  store.push(batch({ a: "1" }));
  await see(1);
  for (let failures = 1; failures <= 2; failures++) {
    clock.advance(5_000);
    await until("the write fails", () => writes().failure === failures);
  }
  const [line, ...more] = messages();
  assert.match(line ?? "", /the snapshot of the rules in .* is not written: /);
  assert.deepEqual(more, []);
  mkdirSync(folder);
  clock.advance(5_000);
  await wrote(1);
  assert.equal(messages().at(-1), "the snapshot of the rules is written again");
});

test("a file of another owner with wider rights becomes one that only the owner reads", async (t) => {
  const path = join(folderOf(t), "rules");
  writeFileSync(path, "other");
  chmodSync(path, 0o644);
  await ended(t, path, { a: "1" });
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("rules beyond the bound are not written, and the file before stays", async (t) => {
  const path = join(folderOf(t), "rules");
  await ended(t, path, { a: "1" });
  const before = readFileSync(path, "utf8");
  const { store, see, clock, writes, messages } = agent(t, path);
  const large = "x".repeat(1024 * 1024);
  store.push(batch(Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${at}`, large]))));
  await see(1);
  clock.advance(5_000);
  await until("the write fails", () => writes().failure === 1);
  assert.match(messages()[0] ?? "", /the rules have more than 67108864 bytes/);
  assert.equal(readFileSync(path, "utf8"), before);
});

test("a store that refuses while the snapshot stands in ends the following with its reason", async (t) => {
  const path = join(folderOf(t), "rules");
  await ended(t, path, { a: "1" });
  const { clock, see, store, following, thrown } = agent(t, path);
  clock.advance(1_000);
  await see(1);
  store.fail(new Error("wrong password"));
  await following;
  assert.match(String(thrown()), /wrong password/);
});

test("a store that comes back empty takes no rule of the snapshot away", async (t) => {
  const path = join(folderOf(t), "rules");
  const rule = "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0";
  await ended(t, path, { [rule]: "1", "/config/complete": "x" });
  const clock = fakeClock();
  const { lines, ...log } = memoryLog();
  const snapshot = new RuleSnapshot({
    path,
    owner: OWNER,
    clock,
    log,
    inUse: () => undefined,
  });
  const store = feed();
  const seen: StoreUpdate[] = [];
  let lost = 0;
  const kept = (keys: number) => {
    lost = keys;
  };
  void (async () => {
    const batches = snapshot.prepend(store.batches());
    for await (const next of keepRules(batches, { group: "default", clock, kept })) seen.push(next);
  })();
  clock.advance(1_000);
  await until("the snapshot stands in", () => seen.length === 1);
  for (const { key, value } of seen[0]?.puts ?? [])
    snapshot.record({
      revision: 1,
      puts: [{ key, value, revision: 1, created: 1, leased: false }],
      deletes: [],
    });
  store.push(batch({}));
  await until("the store has answered", () => seen.length === 2);
  assert.deepEqual(seen[1]?.deletes, []);
  await until("it is reported", () => {
    clock.advance(1_000);
    return lost > 0;
  });
  assert.ok(lines.length > 0);
});
