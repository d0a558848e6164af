import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_UNCONFIRMED_REPLIES } from "#h2/limits.ts";
import { UnconfirmedReplies } from "#h2/unconfirmed-replies.ts";
import { MAX_UNCONFIRMED_BYTES, SharedReplyMemory } from "#serve/http/http1/reply-confirmation.ts";

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
  assert.ok(unconfirmed.ask());
  add(5);
  unconfirmed.lost(3);
  unconfirmed.lost(5);
  unconfirmed.lost(3);
  assert.deepEqual(released, [3, 5]);
  assert.equal(memory.reserved, SIZE);
});

test("one confirmation at a time covers the replies before it was asked for, and none after it", () => {
  const { unconfirmed, memory, released, add } = replies();
  assert.equal(unconfirmed.ask(), false, "nothing to confirm");
  add(1);
  assert.ok(unconfirmed.ask());
  add(3);
  assert.equal(unconfirmed.ask(), false, "the first one is on its way");
  unconfirmed.confirmAsked();
  unconfirmed.lost(1);
  assert.deepEqual(released, []);
  assert.ok(unconfirmed.ask());
  unconfirmed.lost(3);
  assert.deepEqual(released, [3]);
  unconfirmed.confirmAsked();
  assert.equal(unconfirmed.ask(), false);
  assert.equal(memory.reserved, 0);
});

test("a connection that breaks releases all that is unconfirmed; one that ends in order, nothing", () => {
  const broken = replies();
  broken.add(1);
  broken.unconfirmed.ask();
  broken.add(3);
  broken.unconfirmed.lostAll();
  broken.unconfirmed.lostAll();
  assert.deepEqual([broken.released, broken.memory.reserved], [[1, 3], 0]);

  const ended = replies();
  ended.add(1);
  ended.unconfirmed.ask();
  ended.add(3);
  ended.unconfirmed.confirmAll();
  ended.unconfirmed.lostAll();
  assert.deepEqual([ended.released, ended.memory.reserved], [[], 0]);
});

test("of too many replies the oldest count as confirmed, and those without memory at once", () => {
  const many = replies();
  for (let id = 1; id <= 2 * MAX_UNCONFIRMED_REPLIES + 1; id += 2) {
    many.add(id);
    many.unconfirmed.ask();
  }
  assert.equal(many.memory.reserved, MAX_UNCONFIRMED_REPLIES * SIZE);
  many.unconfirmed.lost(1);
  assert.deepEqual(many.released, []);
  many.unconfirmed.lostAll();
  assert.equal(many.released.length, MAX_UNCONFIRMED_REPLIES);

  const small = replies(SIZE);
  small.add(1, 3);
  small.unconfirmed.lostAll();
  assert.deepEqual(small.released, [1]);
});

test("connections share 16 MiB: a reply beyond them counts as confirmed, until others are", () => {
  assert.equal(MAX_UNCONFIRMED_BYTES, 16 * 1024 * 1024);
  const memory = new SharedReplyMemory();
  const [one, other] = [new UnconfirmedReplies(memory), new UnconfirmedReplies(memory)];
  const released: string[] = [];
  const held = (name: string) => ({
    size: MAX_UNCONFIRMED_BYTES / 16,
    release: () => void released.push(name),
  });
  for (let id = 0; id < 15; id++) one.add(id, held("one"));
  other.add(0, held("fits"));
  other.add(1, held("too many"));
  other.lostAll();
  assert.deepEqual(released, ["fits"]);
  one.confirmAll();
  for (let id = 0; id < 17; id++) other.add(id, held("later"));
  other.lostAll();
  assert.equal(released.filter((name) => name === "later").length, 16);
});
