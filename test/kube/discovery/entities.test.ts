// Any sequence of changes leads to the same knowledge as a fresh list of the same objects.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Entity } from "#base/net/entity.ts";
import { Entities } from "#kube/discovery/entities.ts";

function entity(ipAddress: string, name: string, service: string, over: Partial<Entity> = {}) {
  const fields = { uid: `uid-${name}`, namespace: "a", nodeName: "n" };
  return { ipAddress, name, services: [service], ...fields, ...over };
}

function shown(entities: Entities) {
  const byAddress = [...entities.all()].map((each) => [each.ipAddress, each] as const);
  const byName = [...entities.byName()];
  const sorted = <T>(pairs: readonly (readonly [string, T])[]) =>
    pairs.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    size: entities.size,
    byAddress: sorted(byAddress),
    byName: sorted(byName),
    services: sorted(byAddress).map(([address]) => entities.byAddress(address)),
  };
}

const ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1"] as const;
const claim = fc
  .record({
    address: fc.constantFrom(...ADDRESSES),
    name: fc.constantFrom("web", "api"),
    namespace: fc.constantFrom("a", "b"),
    service: fc.constantFrom("s.a", "t.a", "u.b"),
  })
  .map(({ address, name, namespace, service }) => entity(address, name, service, { namespace }));
const change = fc.record({
  object: fc.constantFrom("x", "y", "z"),
  entities: fc.option(fc.array(claim, { maxLength: 4 }), { nil: undefined }),
});

test("any order of changes gives what a fresh list gives", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), fc.boolean(), (changes, isReversed) => {
      const followed = new Entities();
      const last = new Map<string, readonly Entity[]>();
      for (const { object, entities } of changes) {
        if (entities === undefined) {
          followed.delete(object);
          last.delete(object);
        } else {
          followed.set(object, entities);
          last.set(object, entities);
        }
      }
      const fresh = new Entities();
      const objects = isReversed ? [...last].reverse() : [...last];
      for (const [object, entities] of objects) fresh.set(object, entities);
      assert.deepEqual(shown(followed), shown(fresh));
      const named = new Set([...last.values()].flat().map(({ ipAddress }) => ipAddress));
      assert.equal(followed.size, named.size);
      assert.equal(followed.leftOut, 0);
    }),
  );
});

test("too many addresses are left out and counted, and taken in when there is room", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
      const limited = new Entities(5);
      const last = new Map<string, readonly Entity[]>();
      for (const { object, entities } of changes) {
        if (entities === undefined) limited.delete(object);
        else limited.set(object, entities);
        last.set(object, entities ?? []);
        const wanted = [...last.values()].flat().length;
        assert.ok(limited.leftOut >= Math.max(0, wanted - 5) && limited.leftOut <= wanted);
      }
      // As soon as little is left, all of it is known.
      for (const object of ["x", "y"]) limited.delete(object);
      const rest = last.get("z") ?? [];
      const fresh = new Entities();
      fresh.set("z", rest);
      assert.equal(limited.leftOut, 0);
      assert.deepEqual(shown(limited), shown(fresh));
    }),
  );
});

test("a pod behind two services has both, in order, and loses one with its slice", () => {
  const entities = new Entities();
  entities.set("slices/b", [entity("10.0.0.1", "web", "b.a")]);
  entities.set("slices/a", [entity("10.0.0.1", "web", "a.a")]);
  assert.deepEqual(entities.byAddress("10.0.0.1"), ["a.a", "b.a"]);
  entities.delete("slices/b");
  assert.deepEqual(entities.byAddress("10.0.0.1"), ["a.a"]);
  entities.delete("slices/a");
  assert.deepEqual(entities.byAddress("10.0.0.1"), []);
  assert.equal(entities.size, 0);
});

test("an address that changes is followed", () => {
  const entities = new Entities();
  entities.set("slices/a", [entity("10.0.0.1", "web", "a.a")]);
  entities.set("slices/a", [entity("10.0.0.2", "web", "a.a")]);
  assert.equal(entities.at("10.0.0.1"), undefined);
  assert.equal(entities.byName().get("a/web")?.ipAddress, "10.0.0.2");
});

test("names are told apart by their namespaces", () => {
  const entities = new Entities();
  entities.set("slices/a", [entity("10.0.0.1", "web", "s.a")]);
  entities.set("slices/b", [entity("10.0.0.2", "web", "s.b", { namespace: "b" })]);
  assert.deepEqual([...entities.byName().keys()], ["a/web", "b/web"]);
});

test("a pod with two families is known at both addresses, and shown by name with IPv4", () => {
  const entities = new Entities();
  entities.set("slices/6", [entity("2001:db8::1", "web", "s.a")]);
  entities.set("slices/4", [entity("10.0.0.1", "web", "s.a")]);
  assert.deepEqual(entities.byAddress("2001:db8::1"), ["s.a"]);
  assert.equal(entities.size, 2);
  assert.equal(entities.byName().get("a/web")?.ipAddress, "10.0.0.1");
});

test("pods that share the address of their node keep services of their own by name", () => {
  const entities = new Entities();
  entities.set("slices/a", [entity("10.0.0.1", "web", "s.a")]);
  entities.set("slices/b", [entity("10.0.0.1", "api", "t.a")]);
  assert.deepEqual(entities.at("10.0.0.1"), {
    ...entity("10.0.0.1", "api", ""),
    services: ["s.a", "t.a"],
  });
  assert.deepEqual(entities.byName().get("a/web")?.services, ["s.a"]);
});
