import assert from "node:assert/strict";
import { isIP } from "node:net";
import { test } from "node:test";
import fc from "fast-check";
import { canonicalAddress, networkOf } from "#base/net/ip-address.ts";

test("every address has one spelling", () => {
  const cases = [
    ["10.0.0.1", "10.0.0.1"],
    ["::ffff:10.0.0.1", "10.0.0.1"],
    ["::FFFF:0a00:0001", "10.0.0.1"],
    ["0:0:0:0:0:ffff:10.0.0.1", "10.0.0.1"],
    ["[::ffff:10.0.0.1]", "10.0.0.1"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["2001:db8::0001", "2001:db8::1"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["2001:0:0:1:0:0:0:1", "2001:0:0:1::1"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    ["[fe80::1%25eth0]", "fe80::1"],
    ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
    ["::", "::"],
    ["::1", "::1"],
  ] as const;
  for (const [given, wanted] of cases) assert.equal(canonicalAddress(given), wanted, given);
});

test("text that is no address stays as it is", () => {
  for (const text of [
    "010.0.0.1",
    "10.0.0.1:80",
    "10.0.0",
    "10.0.0.0.1",
    "10.0.0.256",
    "backend.local",
    "",
    "::ffff:10.0.0.256",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "12345::",
    "10.0.0.1::",
    "1:2:3:4:5:6:7::8",
    ":1:2:3:4:5:6:7",
    "::g",
  ]) {
    assert.equal(canonicalAddress(text), text);
    assert.equal(networkOf(text, 24, 64), text);
  }
});

test("an address is in the network of its first bits", () => {
  assert.equal(networkOf("192.0.2.77", 24, 64), "192.0.2.0");
  assert.equal(networkOf("192.0.2.77", 32, 64), "192.0.2.77");
  assert.equal(networkOf("192.0.2.77", 28, 64), "192.0.2.64");
  assert.equal(networkOf("192.0.2.77", 1, 64), "128.0.0.0");
  assert.equal(networkOf("::ffff:192.0.2.77", 24, 64), "192.0.2.0");
  assert.equal(networkOf("2001:db8:1:2:3:4:5:6", 24, 64), "2001:db8:1:2::");
  assert.equal(networkOf("2001:db8:1:2ff:3:4:5:6", 24, 60), "2001:db8:1:2f0::");
  assert.equal(networkOf("2001:db8:1:2:3:4:5:6", 24, 128), "2001:db8:1:2:3:4:5:6");
});

test("any spelling of an address becomes the platform's canonical one", () => {
  const platform = (text: string) => new URL(`http://[${text}]`).hostname.slice(1, -1);
  const group = fc.oneof(fc.constant(0), fc.constant(0), fc.nat(0xffff));
  const address = fc.array(group, { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(address, fc.nat(4), (groups, pad) => {
      const text = groups.map((each) => each.toString(16).padStart(pad, "0")).join(":");
      const canonical = canonicalAddress(text);
      if (groups.slice(0, 5).some((each) => each !== 0) || groups[5] !== 0xffff) {
        assert.equal(canonical, platform(text));
        assert.equal(canonicalAddress(text.toUpperCase()), canonical);
      } else assert.equal(isIP(canonical), 4);
    }),
    { numRuns: 2000 },
  );
});

test("text is an address exactly where the platform takes it for one", () => {
  const piece = fc.constantFrom("0", "1", "ff", "abcd", ":", "::", ".", "255", "256", "1.2.3.4");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join("");
      // Every address has a network of no bits, and no other text is changed to it.
      const zeros = ["0.0.0.0", "::"];
      const changed = zeros.includes(networkOf(text, 0, 0));
      assert.equal(changed, isIP(text) !== 0, text);
    }),
    { numRuns: 5000 },
  );
});
