// Rotation in virtual time, with replicas that learn of changes late: every handshake in between is valid.

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import {
  bundleOf,
  type Material,
  type RotationRules,
  rotate,
} from "../../../src/injector/tls/rotation.ts";

const HOUR = 3_600_000;
const RULES: RotationRules = {
  names: ["sluice-injector.sluice.svc"],
  servingLifetime: 90 * 24 * HOUR,
  authorityLifetime: 360 * 24 * HOUR,
  overlap: 10 * 60_000,
};
const START = Date.UTC(2026, 10, 1);

function first(now = START): Material {
  return rotate(undefined, RULES, { now, isPublished: false }).material;
}

const trusts = (bundle: string, { serving }: Material) =>
  bundle
    .split(/(?<=-----END CERTIFICATE-----\n)/)
    .filter((cert) => cert !== "")
    .some((cert) => new X509Certificate(serving.cert).verify(new X509Certificate(cert).publicKey));

test("nothing is done while nothing is due", () => {
  const material = first();
  const later = rotate(material, RULES, { now: START + 59 * 24 * HOUR, isPublished: true });
  assert.equal(later.done, undefined);
  assert.equal(later.material, material);
});

test("a certificate is replaced when a third of its life is left, by the same authority", () => {
  const material = first();
  const now = START + 61 * 24 * HOUR;
  const { material: next } = rotate(material, RULES, { now, isPublished: true });
  assert.equal(next.authority, material.authority);
  assert.notEqual(next.serving.cert, material.serving.cert);
  assert.ok(trusts(bundleOf(material), next));
});

test("a new name of the webhook needs a new certificate", () => {
  const rules = { ...RULES, names: ["other.sluice.svc"] as const };
  const { material } = rotate(first(), rules, { now: START + HOUR, isPublished: true });
  assert.equal(
    new X509Certificate(material.serving.cert).checkHost("other.sluice.svc") !== undefined,
    true,
  );
});

test("a new authority is announced first, then it issues, then the old one goes", () => {
  let renewed = first();
  for (const day of [61, 122, 183]) {
    const now = START + day * 24 * HOUR;
    renewed = rotate(renewed, RULES, { now, isPublished: true }).material;
  }
  const due = START + 241 * 24 * HOUR;
  const announced = rotate(renewed, RULES, { now: due, isPublished: true }).material;
  assert.notEqual(announced.authority.cert, renewed.authority.cert);
  assert.equal(announced.serving, renewed.serving);
  assert.ok(trusts(bundleOf(announced), renewed));

  const unheard = rotate(announced, RULES, { now: due + HOUR, isPublished: false });
  assert.equal(unheard.done, undefined, "the API server has not heard of it");
  const early = rotate(announced, RULES, { now: due + 1_000, isPublished: true });
  assert.equal(early.done, undefined, "not every API server has");

  const issued = rotate(announced, RULES, { now: due + HOUR, isPublished: true }).material;
  assert.notEqual(issued.serving.cert, announced.serving.cert);
  assert.equal(issued.previous, renewed.authority.cert);
  const stays = rotate(issued, RULES, { now: due + HOUR + 1_000, isPublished: true });
  assert.equal(stays.done, undefined, "a replica may still show the old certificate");
  const over = rotate(issued, RULES, { now: due + 2 * HOUR, isPublished: true }).material;
  assert.equal(over.previous, "");
  assert.ok(!trusts(bundleOf(over), renewed));
});

test("through years, what any replica shows is always trusted, though it looks only now and then", () => {
  let stored = first();
  let published = bundleOf(stored);
  // Each looks every minute of the overlap of ten.
  const shown = [stored, stored];
  const steps = new Set<string>();
  const every = 60_000;
  let now = START;
  const end = START + 3 * 360 * 24 * HOUR;
  while (now < end) {
    const at = Math.floor(now / every) % shown.length;
    const { material, done } = rotate(stored, RULES, {
      now,
      isPublished: published === bundleOf(stored),
    });
    stored = material;
    published = bundleOf(material);
    shown[at] = material;
    for (const each of shown) {
      assert.ok(trusts(published, each), new Date(now).toISOString());
      assert.ok(now < new X509Certificate(each.serving.cert).validToDate.getTime());
    }
    if (done !== undefined) steps.add(done);
    // Nothing happens between steps: whole days are skipped.
    now += done === undefined && stored.previous === "" ? 24 * HOUR : every;
  }
  assert.equal(steps.size, 4, [...steps].join("; "));
});

for (const [what, broken] of [
  [
    "a key of another certificate",
    (a: Material, b: Material) => ({ ...a, serving: { ...a.serving, key: b.serving.key } }),
  ],
  [
    "an authority that did not issue",
    (a: Material, b: Material) => ({ ...a, authority: b.authority }),
  ],
  [
    "text that is no certificate",
    (a: Material) => ({ ...a, authority: { ...a.authority, cert: "x" } }),
  ],
  ["a certificate in place of the authority", (a: Material) => ({ ...a, authority: a.serving })],
] as const) {
  test(`what cannot be used is made anew: ${what}`, () => {
    const one = first();
    const { material, done } = rotate(broken(one, first()), RULES, {
      now: START,
      isPublished: true,
    });
    assert.match(done ?? "", /made an authority and a certificate/);
    assert.ok(trusts(bundleOf(material), material));
  });
}

test("what has ended is made anew", () => {
  const late = START + 100 * 24 * HOUR;
  assert.match(
    rotate(first(), RULES, { now: late, isPublished: true }).done ?? "",
    /made an authority/,
  );
});
