import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import { Inflater } from "#serve/grpc/messages/inflater.ts";
import { until } from "../../kit/until.ts";

const MB = 1024 * 1024;
/** Highest price charged to a connection's abuse budget for one message. */
const FULL_PRICE = 50;

test("inflates few messages at a time, each once, in order of arrival", async () => {
  const inflater = new Inflater(4_194_304);
  const message = randomBytes(100_000);
  const compressed = gzipSync(message);
  const connection = {};
  const begun: number[] = [];
  const done: number[] = [];
  let most = 0;
  for (let at = 0; at < 20; at++) {
    const owner = {
      // Recorded when inflating begins.
      get ended() {
        begun.push(at);
        most = Math.max(most, begun.length - done.length);
        return at % 5 === 4;
      },
      connection,
      inflated: () => assert.fail("these are no bombs"),
    };
    inflater.inflate("gzip", compressed, owner, (result) => {
      done.push(at);
      if (at % 5 === 4) assert.ok(!(result instanceof Uint8Array));
      else assert.deepEqual(Buffer.from(result as Uint8Array), message);
    });
  }
  assert.deepEqual(begun, [0, 1]);
  await until("all", () => done.length === 20);
  const all = Array.from({ length: 20 }, (_, at) => at);
  assert.deepEqual(begun, all);
  assert.deepEqual(
    done.toSorted((a, b) => a - b),
    all,
  );
  assert.ok(most <= 3, String(most));
});

test("lets connections take turns, however much one of them has sent", async () => {
  const inflater = new Inflater(4_194_304);
  const compressed = gzipSync(randomBytes(1_000));
  const begun: string[] = [];
  let done = 0;
  const send = (from: { readonly name: string }) => {
    const owner = {
      get ended() {
        begun.push(from.name);
        return false;
      },
      connection: from,
      inflated() {},
    };
    inflater.inflate("gzip", compressed, owner, () => done++);
  };
  const [greedy, second, third] = [{ name: "greedy" }, { name: "second" }, { name: "third" }];
  for (let at = 0; at < 8; at++) send(greedy);
  for (const from of [second, second, third]) send(from);
  await until("all", () => done === 11);
  assert.deepEqual(begun.slice(0, 2), ["greedy", "greedy"]);
  assert.deepEqual(begun.slice(2, 8), ["greedy", "second", "third", "greedy", "second", "greedy"]);
});

test("charges a message that grows out of proportion or fails to inflate, after delivering the result", async () => {
  const inflater = new Inflater(4_194_304);
  const priceOf = async (compressed: Uint8Array, encoding: "gzip" | "deflate" = "gzip") => {
    const told: unknown[] = [];
    let done = false;
    const owner = {
      ended: false,
      connection: inflater,
      inflated: (price: number, failed: boolean) => told.push(failed ? "failed" : "grown", price),
    };
    inflater.inflate(encoding, compressed, owner, (result) => {
      assert.equal(told.length, 0, "charged before the result was delivered");
      if (!(result instanceof Uint8Array)) told.push(result.code);
      setImmediate(() => {
        done = true;
      });
    });
    await until("inflated", () => done);
    return told;
  };
  const failed = ["failed", FULL_PRICE];
  assert.deepEqual(await priceOf(gzipSync(Buffer.alloc(64 * MB))), [
    "RESOURCE_EXHAUSTED",
    ...failed,
  ]);
  assert.deepEqual(await priceOf(deflateSync(Buffer.alloc(64 * MB)), "deflate"), [
    "RESOURCE_EXHAUSTED",
    ...failed,
  ]);
  assert.deepEqual(await priceOf(Buffer.from("no gzip")), ["INTERNAL", ...failed]);
  assert.deepEqual(await priceOf(gzipSync(Buffer.alloc(4 * MB))), ["grown", FULL_PRICE]);
  assert.deepEqual(await priceOf(gzipSync(Buffer.alloc(MB))), ["grown", FULL_PRICE / 4]);
  const log = Buffer.from(`{"method":"GET","path":"/a/${"b".repeat(40)}","status":200}\n`);
  const mixed = Buffer.concat([Buffer.alloc(MB, log), randomBytes(8_000)]);
  assert.deepEqual(await priceOf(gzipSync(mixed)), []);
  assert.deepEqual(await priceOf(gzipSync(Buffer.alloc(1_000))), []);
});

test("does not retain a large buffer for a small message", async () => {
  const inflater = new Inflater(4_194_304);
  const sizes = [0, 1, 1_000, 20_000, 40_000, 300_000];
  for (const size of sizes) {
    const owner = { ended: false, connection: inflater, inflated() {} };
    const { promise, resolve } = Promise.withResolvers<unknown>();
    inflater.inflate("gzip", gzipSync(randomBytes(size)), owner, resolve);
    const result = await promise;
    assert.ok(result instanceof Uint8Array);
    assert.equal(result.length, size);
    assert.ok(result.buffer.byteLength <= 2 * size, `${result.buffer.byteLength} for ${size}`);
  }
});
