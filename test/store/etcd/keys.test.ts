import assert from "node:assert/strict";
import { test } from "node:test";
import { Keys } from "#store/etcd/keys.ts";

test("a range has every key that starts with its prefix, and no other", () => {
  const range = (prefix: string) => {
    const { key, rangeEnd } = new Keys("").range(prefix);
    return [key, rangeEnd].map((bytes) => [...bytes]);
  };
  assert.deepEqual(range("/a"), [
    [47, 97],
    [47, 98],
  ]);
  assert.deepEqual(range(""), [[0], [0]], "all keys");
});

test("a namespace stands before each key in the store, and is not seen outside", () => {
  const keys = new Keys("ns/ü/");
  assert.equal(String(keys.bytes("/k")), "ns/ü//k");
  assert.equal(keys.text(keys.bytes("/k")), "/k");
  assert.equal(String(keys.range("").key), "ns/ü/");
});
