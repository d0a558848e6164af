// Something that is no Redis answers in its place, with anything at all: nothing of it decides a flow or ends the process.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { BUCKET } from "#counters/redis/bucket-script.ts";
import { RedisConnection } from "#counters/redis/connection.ts";
import { SLOTS } from "#counters/redis/slot-script.ts";
import { Requests } from "#counters/requests.ts";
import { realClock } from "#runtime/life/clock.ts";
import { fuzzRuns } from "../../kit/properties/fuzz.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";
import { settingsOf } from "./settings.ts";

const bulk = (text: string) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
/** What a server says before it is asked to run a script. */
const INFO = bulk("redis_version:7.0.0\r\nloading:0\r\n");

/** A server that gives `script.reply` to every call of a script, and lets everything else succeed. */
async function fakeRedis(t: TestContext) {
  const script = { reply: "" };
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      // The client sends each command as an array of texts; their names are enough here.
      for (const [, name = ""] of data
        .toString("latin1")
        .matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)) {
        if (/^hello$/i.test(name)) socket.write("%1\r\n+proto\r\n:3\r\n");
        else if (/^info$/i.test(name)) socket.write(INFO);
        else if (/^eval$/i.test(name)) socket.write(":0\r\n");
        else if (/^evalsha$/i.test(name)) socket.write(script.reply, "latin1");
        else socket.write("+OK\r\n");
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { script, url: `redis://127.0.0.1:${port}` };
}

const NUMBER = fc.oneof(
  fc.double({ min: -1, max: 1e6 }).map(String),
  fc.nat({ max: 3 }).map(String),
  fc.constantFrom("", "-1", "1e999", "nan", "Infinity", "9".repeat(400)),
  fc.string(),
);
const TEXT = fc.oneof(
  NUMBER.map((number) => `1, ${number} 0 0 0`),
  NUMBER.map((number) => `${number}, 9 0 0 0`),
  NUMBER.map((number) => `1 ${number}`),
  fc.array(NUMBER, { minLength: 3, maxLength: 5 }).map((all) => `1,${all.join(" ")}`),
  fc.string(),
);
const { reply: REPLY } = fc.letrec((tie) => ({
  reply: fc.oneof(
    { depthSize: "small" },
    TEXT.map(bulk),
    fc.integer().map((number) => `:${number}\r\n`),
    fc.constantFrom(
      "$-1\r\n",
      "*-1\r\n",
      "*0\r\n",
      "+OK\r\n",
      "-ERR no\r\n",
      "_\r\n",
      ",inf\r\n",
      "#t\r\n",
      "%1\r\n+a\r\n+b\r\n",
    ),
    fc.array(tie("reply"), { maxLength: 3 }).map((all) => `*${all.length}\r\n${all.join("")}`),
  ),
}));
const RECEIVED = fc.oneof(
  { weight: 10, arbitrary: REPLY as fc.Arbitrary<string> },
  // As many replies as were asked for: one.
  { weight: 10, arbitrary: TEXT.map((text) => `*1\r\n${bulk(text)}`) },
  {
    weight: 3,
    arbitrary: fc.array(TEXT).map((all) => `*${all.length}\r\n${all.map(bulk).join("")}`),
  },
  {
    weight: 1,
    // Deeper, longer and larger than any reply.
    arbitrary: fc.constantFrom(
      "*1\r\n".repeat(100_000),
      "*2147483647\r\n",
      "$4294967296\r\nx",
      "\0",
    ),
  },
);

test("at debug a connection to Redis is told when it can be used and when it is closed", async (t) => {
  const { url } = await fakeRedis(t);
  const server = new URL(url).host;
  const log = memoryLog("debug");
  const settings = settingsOf(url.replace("//", "//ann:secret@"));
  const connection = new RedisConnection({
    settings,
    clock: realClock(),
    log,
    lost: () => undefined,
  });
  await connection.connect();
  connection.close();
  await until("it is closed", () => log.lines.length > 1);
  assert.deepEqual(log.lines, [
    { level: "debug", message: "connected to Redis", fields: { server } },
    {
      level: "debug",
      message: "the connection to Redis is closed",
      fields: { server, reason: undefined },
    },
  ]);
});

test("whatever a server replies, a request about a bucket or a slot gets a reply of the script or none", async (t) => {
  const { script, url } = await fakeRedis(t);
  const connection = new RedisConnection({
    settings: settingsOf(url),
    clock: realClock(),
    log: memoryLog(),
    lost: (reason) => requests.trip(reason),
  });
  const requests = new Requests(connection, {
    clock: realClock(),
    timeoutMs: 100,
    probeMs: 1,
    most: 10,
    changed: () => undefined,
  });
  t.after(() => requests.close());
  assert.equal(await connection.connect(), undefined);
  const ask = (which: typeof BUCKET) =>
    new Promise<string | undefined>((resolve) => {
      const late = () => undefined;
      if (requests.ask({ script: which, key: "k", args: "" }, resolve, late) === undefined)
        resolve(undefined);
    });
  const answers = { some: 0, none: 0 };
  await fc.assert(
    fc.asyncProperty(RECEIVED, fc.constantFrom("buckets", "slots"), async (received, about) => {
      const which = about === "buckets" ? BUCKET : SLOTS;
      await until("the server is asked again", () => requests.reason === undefined);
      script.reply = received;
      const reply = await ask(which);
      if (reply === undefined) answers.none++;
      else {
        answers.some++;
        assert.ok(which.isReply(reply), reply);
        for (const number of reply.split(/[ ,]/)) assert.ok(Number.isFinite(Number(number)), reply);
      }
    }),
    fuzzRuns(150),
  );
  // A reply of the script is taken for one.
  await until("the server is asked again", () => requests.reason === undefined);
  for (const [which, text] of [
    [BUCKET, "1,0, 8.5 0 0 0"],
    [SLOTS, "1 3"],
  ] as const) {
    script.reply = `*1\r\n${bulk(text)}`;
    assert.equal(await ask(which), text);
  }
  t.diagnostic(`${answers.none} of no reply, ${answers.some} of a reply of the script`);
});
