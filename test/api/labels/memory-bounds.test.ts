// Caches filled from callers' input stay within their bounds, measured on the heap.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LabelNameCache, MAX_LABEL_NAME_BYTES } from "#api/labels/label-name-cache.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { viewOf } from "#wire/protobuf/base64.ts";
import { agentOf, endpointsOf } from "../../kit/api/agent.ts";
import { heldBytes } from "../../kit/attack/memory.ts";

const MIB = 1024 * 1024;

/** Highest memory use in bytes above that at the start, sampled 20 times. */
function peak(rounds: number, step: (round: number) => void): number {
  const before = heldBytes();
  let most = 0;
  for (let round = 0; round < rounds; round++) {
    step(round);
    if (round % (rounds / 20) === 0) most = Math.max(most, heldBytes() - before);
  }
  return most;
}

const long = (text: string) => text.padEnd(96, "x");

describe("sets of header names", () => {
  it("are dropped when their total size exceeds the bound, however much they share", () => {
    const names = new HeaderNames(() => 0.5);
    const shapes = new LabelNameCache();
    const shared = Array.from({ length: 63 }, (_, at) => names.ofText(long(`shared-${at}-`)));
    const most = peak(1_900, (round) => {
      const { keys } = shapes.get("proxy", [...shared, names.ofText(long(`own-${round}-`))]);
      assert.ok(keys.proto.bytes.length > 6_000 && keys.json.length > 6_000);
    });
    // The names themselves are kept as well, and have a bound of their own.
    assert.ok(most < MAX_LABEL_NAME_BYTES + 2.5 * MIB, `${most} bytes`);
    assert.ok(most > MIB, "nothing was cached");
  });

  it("are dropped when there are too many of them", () => {
    const names = new HeaderNames(() => 0.5);
    const shapes = new LabelNameCache();
    const known = Array.from({ length: 40 }, (_, at) => names.ofText(`n${at}`));
    const most = peak(6_000, (round) => {
      const own = known.filter((_, at) => (round * 2_654_435_761 + at * 40_503) % 7 < 3);
      shapes.get("described", [...own, names.ofText(`own-${round % 1_500}`)]);
    });
    assert.ok(most < MAX_LABEL_NAME_BYTES + 2 * MIB, `${most} bytes`);
  });

  it("are recognised until they are dropped, and read the same afterwards", () => {
    const names = new HeaderNames(() => 0.5);
    const shapes = new LabelNameCache();
    const of = (...texts: string[]) =>
      shapes.get(
        "none",
        texts.map((text) => names.ofText(text)),
      ).keys;
    const first = of("a", "b");
    assert.equal(of("b", "a", "a"), first);
    for (let round = 0; round < 20_000; round++) of("a", `b${round}`);
    assert.notEqual(of("a", "b"), first, "forgotten");
    assert.deepEqual(of("a", "b").keys, first.keys);
  });
});

describe("names of headers", () => {
  it("are dropped when there are too many of them, and long ones are never cached", () => {
    const names = new HeaderNames(() => 0.5);
    const { id } = names.ofText("first");
    for (let round = 0; round < 2_000; round++) names.ofText(`n${round}`);
    assert.equal(names.ofText("first").id, id);
    for (let round = 0; round < 100; round++) names.ofText(`more${round}`);
    assert.notEqual(names.ofText("first").id, id);
    assert.equal(names.ofText("x".repeat(97)).id, -1);
    const bytes = Buffer.from("x".repeat(97));
    assert.equal(names.ofBytes(viewOf(bytes), 0, 97).id, -1);
  });

  it("stay within their bound, whether they are valid text or not", () => {
    const names = new HeaderNames(() => 0.5);
    const most = peak(30_000, (round) => {
      const bytes = Buffer.from(long(`own-${round}-`));
      names.ofBytes(viewOf(bytes), 0, bytes.length);
    });
    assert.ok(most < 2.5 * MIB, `${most} bytes`);
    const odd = peak(30_000, (round) => {
      const bytes = Buffer.alloc(96, 0xff);
      bytes.writeUInt16BE(0x8080 | (round & 0x3f) | ((round << 2) & 0x3f00));
      bytes.writeUInt16BE(0x8080 | ((round >> 12) & 0x3f), 4);
      names.ofBytes(viewOf(bytes), 0, bytes.length);
    });
    assert.ok(odd < MIB / 4, `${odd} bytes`);
  });
});

describe("the end of too many flows at once", () => {
  const refs = (count: number) => Array.from({ length: count }, () => ({}));
  const refused = { code: "INVALID_ARGUMENT", http: 400, message: /more than 1000/ };

  it("is refused as a whole, in either encoding", async () => {
    const { flowEnd, flowEndJson } = endpointsOf(agentOf([]).flowController);
    const binary = (count: number) =>
      flowEnd({ controlPoint: "here", inflightRequests: refs(count) });
    const json = (count: number) =>
      flowEndJson({ control_point: "here", inflight_requests: refs(count) });
    assert.equal((await binary(1_000)).tokenReturnStatuses.length, 1_000);
    assert.equal((await json(1_000)).token_return_statuses.length, 1_000);
    await assert.rejects(binary(1_001), refused);
    await assert.rejects(json(1_001), refused);
  });
});
