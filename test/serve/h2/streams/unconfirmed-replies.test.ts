import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_UNCONFIRMED_REPLIES } from "#serve/h2/limits.ts";
import { UnconfirmedReplies } from "#serve/h2/streams/unconfirmed-replies.ts";

const SIZE = 100;

/** Replies of streams, with the ids of those that were released. */
function replies(most = Number.POSITIVE_INFINITY) {
  const memory = {
    reserved: 0,
    reserve(bytes: number): boolean {
      if (this.reserved + bytes > most) return false;
      this.reserved += bytes;
      return true;
    },
    release(bytes: number): void {
      this.reserved -= bytes;
    },
  };
  const unconfirmed = new UnconfirmedReplies(memory);
  const released: number[] = [];
  const add = (...ids: readonly number[]) => {
    for (const id of ids)
      unconfirmed.add(id, { size: SIZE, release: () => void released.push(id) });
  };
  return { unconfirmed, memory, released, add };
}

test("a reply that its peer resets before it confirms it is released, once", () => {
  const { unconfirmed, memory, released, add } = replies();
  add(1, 3);
  assert.ok(unconfirmed.takePing());
  add(5);
  unconfirmed.reset(3);
  unconfirmed.reset(5);
  unconfirmed.reset(3);
  assert.deepEqual(released, [3, 5]);
  assert.equal(memory.reserved, SIZE);
});

test("one PING at a time confirms the replies before it, and none after it", () => {
  const { unconfirmed, memory, released, add } = replies();
  assert.equal(unconfirmed.takePing(), false, "nothing to confirm");
  add(1);
  assert.ok(unconfirmed.takePing());
  add(3);
  assert.equal(unconfirmed.takePing(), false, "the first one is on its way");
  unconfirmed.acknowledged();
  unconfirmed.reset(1);
  assert.deepEqual(released, []);
  assert.ok(unconfirmed.takePing());
  unconfirmed.reset(3);
  assert.deepEqual(released, [3]);
  unconfirmed.acknowledged();
  assert.equal(unconfirmed.takePing(), false);
  assert.equal(memory.reserved, 0);
});

test("a connection that breaks releases all that is unconfirmed; one that ends in order, nothing", () => {
  const broken = replies();
  broken.add(1);
  broken.unconfirmed.takePing();
  broken.add(3);
  broken.unconfirmed.lost();
  broken.unconfirmed.lost();
  assert.deepEqual([broken.released, broken.memory.reserved], [[1, 3], 0]);

  const ended = replies();
  ended.add(1);
  ended.unconfirmed.takePing();
  ended.add(3);
  ended.unconfirmed.confirmAll();
  ended.unconfirmed.lost();
  assert.deepEqual([ended.released, ended.memory.reserved], [[], 0]);
});

test("beyond the limits, the oldest replies and those without memory count as confirmed", () => {
  const many = replies();
  for (let id = 1; id <= 2 * MAX_UNCONFIRMED_REPLIES + 1; id += 2) {
    many.add(id);
    many.unconfirmed.takePing();
  }
  assert.equal(many.memory.reserved, MAX_UNCONFIRMED_REPLIES * SIZE);
  many.unconfirmed.reset(1);
  assert.deepEqual(many.released, []);
  many.unconfirmed.lost();
  assert.equal(many.released.length, MAX_UNCONFIRMED_REPLIES);

  const small = replies(SIZE);
  small.add(1, 3);
  small.unconfirmed.lost();
  assert.deepEqual(small.released, [1]);
});
