// Batches of requests: those of one turn of the event loop travel in one call of their script, over a scripted server
// and over a real one.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Batches } from "#counters/redis/batches.ts";
import { BUCKET } from "#counters/redis/bucket-script.ts";
import { RedisConnection } from "#counters/redis/connection.ts";
import type { Script } from "#counters/redis/keys.ts";
import { SLOTS } from "#counters/redis/slot-script.ts";
import type { ReplyReceiver } from "#counters/requests.ts";
import { realClock } from "#runtime/life/clock.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { settingsOf } from "./settings.ts";

interface Sent extends PromiseWithResolvers<readonly string[]> {
  readonly script: Script;
  readonly keys: readonly string[];
}

function bench() {
  const sent: Sent[] = [];
  const batches = new Batches((script, keys) => {
    const call = { script, keys, ...Promise.withResolvers<readonly string[]>() };
    sent.push(call);
    return call.promise;
  });
  const told: string[] = [];
  const receiver = (key: string): ReplyReceiver<string> => ({
    replied: (reply) => told.push(`${key} ${reply}`),
    undecided: () => told.push(`${key} undecided`),
    failed: (thrown) => told.push(`${key} failed: ${thrown}`),
  });
  const add = (script: Script, key: string) =>
    batches.add({ script, key, args: "" }, receiver(key));
  return { sent, told, add, sizes: () => sent.map(({ keys }) => keys.length) };
}

test("requests of one turn travel together, each script apart, and each gets its reply", async () => {
  const { sent, told, add } = bench();
  add(BUCKET, "a");
  add(SLOTS, "s");
  add(BUCKET, "b");
  add(BUCKET, "a");
  assert.equal(sent.length, 0, "the turn is not over");
  await turn();
  assert.deepEqual(
    sent.map(({ script, keys }) => [script === BUCKET, keys]),
    [
      [true, ["a", "b", "a"]],
      [false, ["s"]],
    ],
  );
  sent[0]?.resolve(["1", "2", "3"]);
  sent[1]?.reject(new Error("gone"));
  await turn();
  assert.deepEqual(told, ["a 1", "b 2", "a 3", "s failed: Error: gone"]);
});

test("a call has a bounded number of keys", async () => {
  const { sizes, add } = bench();
  for (let n = 0; n < 150; n++) add(BUCKET, `key ${n}`);
  await turn();
  assert.deepEqual(sizes(), [64, 64, 22]);
});

test("while two calls are on their way, the next requests wait, and then travel together", async () => {
  const { sent, sizes, add } = bench();
  for (let n = 0; n < 4; n++) {
    add(BUCKET, `key ${n}`);
    await turn();
  }
  assert.deepEqual(sizes(), [1, 1]);
  sent[0]?.resolve(["1"]);
  await turn();
  await turn();
  assert.deepEqual(sizes(), [1, 1, 2]);
});

test("all requests that wait are sent when a call returns, in as many calls as they need", async () => {
  const { sent, sizes, add } = bench();
  for (let n = 0; n < 2; n++) {
    add(BUCKET, `key ${n}`);
    await turn();
  }
  for (let n = 0; n < 150; n++) add(BUCKET, `later ${n}`);
  await turn();
  assert.deepEqual(sizes(), [1, 1]);
  sent[0]?.resolve(["1"]);
  await turn();
  await turn();
  assert.deepEqual(sizes(), [1, 1, 64, 64, 22]);
});

test("a reply that is missing is a failure", async () => {
  const { sent, told, add } = bench();
  add(BUCKET, "a");
  add(BUCKET, "b");
  await turn();
  sent[0]?.resolve(["1"]);
  await turn();
  assert.deepEqual(told, ["a 1", "b failed: Error: fewer replies than requests"]);
});

/** A connection to a real Redis, and a way to ask it, in one call for all that is asked in one turn. */
async function connected(t: TestContext) {
  const redis = await startRedis(t);
  const log = memoryLog();
  const connection = new RedisConnection({
    settings: settingsOf(redis.url),
    clock: realClock(),
    log,
    lost: () => undefined,
  });
  t.after(() => connection.close());
  assert.equal(await connection.connect(), undefined);
  const ask = (script: Script, key: string, args: string) =>
    new Promise<string>((replied, failed) => {
      const undecided = () => replied("undecided");
      connection.run({ script, key, args }, { replied, undecided, failed });
    });
  const take = (key: string, want: number) =>
    ask(BUCKET, `sluice:{${key}}`, `10 0 1000 1 0 0 1 refuse 0;${want} 1;;`);
  const granted = async (replies: readonly Promise<string>[]) =>
    (await Promise.all(replies)).map((reply) => reply.split(" ").slice(0, 2).join(" "));
  return { redis, ask, take, granted, lines: () => log.lines.map(({ message }) => message) };
}

test("Redis counts requests that travel together one after the other, in one call", async (t) => {
  const { redis, ask, take, granted } = await connected(t);
  const slot = (what: string) => ask(SLOTS, "sluice:{slots}", what);
  const all = ["1, 4", "0, 4", "1, 5", "1, 0"];
  // The server does not know the script yet.
  assert.deepEqual(await granted([take("a", 6), take("a", 6), take("b", 5), take("a", 4)]), all);
  assert.deepEqual(
    await Promise.all([
      slot("take x 60000 1 1 9 1"),
      slot("take y 60000 1 1 9 1"),
      slot("end x 60000"),
    ]),
    ["1 0", "0 1", "1"],
  );
  await redis.command("CONFIG", "RESETSTAT");
  assert.deepEqual(await granted([take("c", 6), take("c", 6), take("d", 5), take("c", 4)]), all);
  const stats = String(await redis.command("INFO", "commandstats"));
  assert.match(stats, /^cmdstat_evalsha:calls=1,/m);
});

test("a key that holds something else fails alone, and is reported without its label value", async (t) => {
  const { redis, ask, take, granted, lines } = await connected(t);
  for (const key of ["sluice:{g/p/list/ann}", "sluice:{s}"]) await redis.command("LPUSH", key, "1");
  await redis.command("SET", "sluice:{g/p/text/ann}", "seventeen letters");
  await redis.command("ZADD", "sluice:{z}", 5, "a score of another program");
  const slot = (key: string) => ask(SLOTS, `sluice:{${key}}`, "take x 60000 1 1 9 1");
  for (let times = 0; times < 2; times++) {
    const buckets = [take("a", 1), take("g/p/list/ann", 1), take("g/p/text/ann", 1), take("b", 1)];
    const slots = [slot("s"), slot("z"), slot(`free-${times}`)];
    const left = 9 - times;
    assert.deepEqual(
      [...(await granted(buckets)), ...(await granted(slots))],
      [`1, ${left}`, "undecided", "undecided", `1, ${left}`, "undecided", "undecided", "1 0"],
    );
  }
  assert.equal(lines().length, 1, "once in a while, not for each flow");
  assert.match(lines()[0] ?? "", /below sluice:\{g\/p\/list holds a value of something else/);
});
