import assert from "node:assert/strict";
import { test } from "node:test";
import { Places } from "#serve/listen/places.ts";

const MAX_PLACES = 1_000;

/** The number of connections of an address that get a place. */
function taken(places: Places, address: string | undefined, tries: number): number {
  let count = 0;
  for (let each = 0; each < tries; each++) if (places.take(address) === undefined) count++;
  return count;
}

test("an address on another machine gets half of the places, and gets them back", () => {
  const places = new Places(MAX_PLACES);
  assert.equal(taken(places, "192.0.2.1", MAX_PLACES), MAX_PLACES / 2);
  assert.equal(taken(places, "::ffff:192.0.2.1", 1), 0, "the same address");
  places.release("::ffff:192.0.2.1");
  assert.equal(taken(places, "192.0.2.1", 2), 1);
});

test("the last places are for addresses that hold few", () => {
  const places = new Places(MAX_PLACES);
  taken(places, "192.0.2.1", MAX_PLACES);
  assert.equal(taken(places, "192.0.2.2", MAX_PLACES), 450);
  assert.equal(taken(places, "192.0.2.3", MAX_PLACES), 8, "a probe");
  assert.equal(taken(places, "127.0.0.1", MAX_PLACES), 8, "and one of this machine");
});

for (const local of ["127.0.0.1", "::1", "::ffff:127.0.0.2", undefined]) {
  test(`${local ?? "a Unix socket"} has no share, but leaves room for probes`, () => {
    const places = new Places(MAX_PLACES);
    assert.equal(taken(places, local, 2 * MAX_PLACES), 950);
    assert.equal(taken(places, "192.0.2.1", MAX_PLACES), 8);
  });
}

test("a port with few places keeps none free", () => {
  const places = new Places(2);
  assert.equal(taken(places, "127.0.0.1", 3), 2);
});

test("all addresses of an IPv6 network of 64 bits count as one", () => {
  const places = new Places(MAX_PLACES);
  let count = 0;
  for (let each = 1; each <= MAX_PLACES; each++) {
    if (places.take(`2001:db8:0:1::${each.toString(16)}`) === undefined) count++;
  }
  assert.equal(count, MAX_PLACES / 2);
  assert.equal(taken(places, "2001:db8:0:2::1", 1), 1, "the next network");
  places.release("2001:db8:0:1::7");
  assert.equal(taken(places, "2001:db8:0:1:ffff::", 2), 1);
});

test("IPv4 addresses inside IPv6 ones count as themselves, in every spelling", () => {
  const places = new Places(MAX_PLACES);
  assert.equal(taken(places, "::ffff:192.0.2.1", MAX_PLACES), MAX_PLACES / 2);
  assert.equal(taken(places, "::ffff:c000:201", 1), 0, "the same address");
  assert.equal(taken(places, "::ffff:192.0.2.2", 1), 1, "another one");
});

test("a refusal tells whether the address holds too many, or all together do", () => {
  const places = new Places(MAX_PLACES);
  taken(places, "192.0.2.1", MAX_PLACES / 2);
  assert.equal(places.take("192.0.2.1"), "too_many_of_address");
  taken(places, "192.0.2.2", MAX_PLACES);
  assert.equal(
    places.take("192.0.2.2"),
    "too_many",
    "the rest is kept for addresses that hold few",
  );
  for (let each = 0; each < 50; each++) taken(places, `198.51.100.${each}`, 1);
  assert.equal(places.take("203.0.113.1"), "too_many", "no place is left");
});
