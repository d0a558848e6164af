import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionSlots } from "#serve/listen/connection-slots.ts";

const MAX_SLOTS = 1_000;

/** The number of connections of an address that get a place. */
function taken(slots: ConnectionSlots, address: string | undefined, tries: number): number {
  let count = 0;
  for (let each = 0; each < tries; each++) if (slots.take(address) === undefined) count++;
  return count;
}

test("an address on another machine gets half of the slots, and gets them back", () => {
  const slots = new ConnectionSlots(MAX_SLOTS);
  assert.equal(taken(slots, "192.0.2.1", MAX_SLOTS), MAX_SLOTS / 2);
  assert.equal(taken(slots, "::ffff:192.0.2.1", 1), 0, "the same address");
  slots.release("::ffff:192.0.2.1");
  assert.equal(taken(slots, "192.0.2.1", 2), 1);
});

test("the last slots are for addresses that hold few", () => {
  const slots = new ConnectionSlots(MAX_SLOTS);
  taken(slots, "192.0.2.1", MAX_SLOTS);
  assert.equal(taken(slots, "192.0.2.2", MAX_SLOTS), 450);
  assert.equal(taken(slots, "192.0.2.3", MAX_SLOTS), 8, "a probe");
  assert.equal(taken(slots, "127.0.0.1", MAX_SLOTS), 8, "and one of this machine");
});

for (const local of ["127.0.0.1", "::1", "::ffff:127.0.0.2", undefined]) {
  test(`${local ?? "a Unix socket"} has no share, but leaves room for probes`, () => {
    const slots = new ConnectionSlots(MAX_SLOTS);
    assert.equal(taken(slots, local, 2 * MAX_SLOTS), 950);
    assert.equal(taken(slots, "192.0.2.1", MAX_SLOTS), 8);
  });
}

test("a port with few slots keeps none free", () => {
  const slots = new ConnectionSlots(2);
  assert.equal(taken(slots, "127.0.0.1", 3), 2);
});

test("all addresses of an IPv6 network of 64 bits count as one", () => {
  const slots = new ConnectionSlots(MAX_SLOTS);
  let count = 0;
  for (let each = 1; each <= MAX_SLOTS; each++) {
    if (slots.take(`2001:db8:0:1::${each.toString(16)}`) === undefined) count++;
  }
  assert.equal(count, MAX_SLOTS / 2);
  assert.equal(taken(slots, "2001:db8:0:2::1", 1), 1, "the next network");
  slots.release("2001:db8:0:1::7");
  assert.equal(taken(slots, "2001:db8:0:1:ffff::", 2), 1);
});

test("IPv4 addresses inside IPv6 ones count as themselves, in every spelling", () => {
  const slots = new ConnectionSlots(MAX_SLOTS);
  assert.equal(taken(slots, "::ffff:192.0.2.1", MAX_SLOTS), MAX_SLOTS / 2);
  assert.equal(taken(slots, "::ffff:c000:201", 1), 0, "the same address");
  assert.equal(taken(slots, "::ffff:192.0.2.2", 1), 1, "another one");
});

test("a refusal tells whether the address holds too many, or all together do", () => {
  const slots = new ConnectionSlots(MAX_SLOTS);
  taken(slots, "192.0.2.1", MAX_SLOTS / 2);
  assert.equal(slots.take("192.0.2.1"), "too_many_of_address");
  taken(slots, "192.0.2.2", MAX_SLOTS);
  assert.equal(slots.take("192.0.2.2"), "too_many", "the rest is kept for addresses that hold few");
  for (let each = 0; each < 50; each++) taken(slots, `198.51.100.${each}`, 1);
  assert.equal(slots.take("203.0.113.1"), "too_many", "no place is left");
});
