import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { compileTemplates } from "#flow/classify/template.ts";

function same(...texts: string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(texts.map((text) => [text, text]));
}

test("the more precise template wins", () => {
  const route = compileTemplates({
    "/users": "users",
    "/users/{id}": "user",
    "/users/{id}/{tab}": "user-tab",
    "/users/me": "me",
    "/users/me/*": "me-any",
    "/users/*": "users-any",
    "/users/{id}/*": "user-any",
    "/users/me/{tab}": "me-tab",
    "/shop/cart/items/*": "cart",
    "/shop/*": "shop",
    "/*": "all",
  });
  const cases: readonly [string, string][] = [
    ["/users", "users"],
    ["/users/", "users"],
    ["/users?a=/b", "users"],
    ["users", "users"],
    ["//users//", "users"],
    ["/users/7", "user"],
    ["/users/me", "me"],
    ["/users/me/", "me"],
    ["/users/me/posts", "me-tab"],
    ["/users/me/posts/1", "me-any"],
    ["/users/7/posts", "user-tab"],
    ["/users//7//posts", "user-tab"],
    ["/users/7/posts/1", "user-any"],
    ["/users/7/posts/1/2", "user-any"],
    ["/shop", "shop"],
    ["/shop/x", "shop"],
    ["/shop/cart", "shop"],
    ["/shop/cart/items", "cart"],
    ["/shop/cart/items/9/z", "cart"],
    ["/", "all"],
    ["", "all"],
    ["?users", "all"],
    ["/other", "all"],
    ["/Users", "all"],
    ["/usersx", "all"],
    ["/__proto__/constructor", "all"],
  ];
  for (const [path, value] of cases) assert.equal(route(path), value, path);
});

test("the root has no segments", () => {
  assert.equal(compileTemplates({ "/": "root" })("/"), "root");
  assert.equal(compileTemplates({ "/": "root" })(""), "root");
  assert.equal(compileTemplates({ "/": "root" })("/a"), undefined);
  assert.equal(compileTemplates({ "/{x}": "one" })("/"), undefined);
  assert.equal(compileTemplates({ "/*": "any", "/": "root" })("/?q"), "root");
});

test("an empty value is a value", () => {
  assert.equal(compileTemplates({ "/a": "", "/*": "any" })("/a"), "");
});

test("malformed templates, and templates that match the same paths, are refused by name", () => {
  assert.throws(() => compileTemplates(same("/a/*/b")), /"\/a\/\*\/b"/);
  assert.throws(() => compileTemplates(same("/*/*")), /"\/\*\/\*"/);
  assert.throws(
    () => compileTemplates(same("/a/{x}", "/a/{y}/")),
    /"\/a\/\{x\}" and "\/a\/\{y\}\/"/,
  );
  assert.throws(() => compileTemplates(same("/a//b", "a/b")), /same paths/);
  assert.throws(() => compileTemplates(same("/*/a", "/*/b")), /"\/\*\/a".*"\/\*\/b"/);
  assert.throws(() => compileTemplates(same("/{a}/b", "/{c}/b")), /same paths/);
  compileTemplates(same("/a", "/a/*", "/a/{x}", "/a/{x}/*", "/", "/*", "/{x}", "/{x}/a"));
});

test("static segments may follow parameters", () => {
  const route = compileTemplates(
    same("/users/{id}", "/users/{id}/orders", "/users/{id}/orders/{order}", "/users/{id}/*"),
  );
  assert.equal(route("/users/7"), "/users/{id}");
  assert.equal(route("/users/7/orders?page=2"), "/users/{id}/orders");
  assert.equal(route("/users/7/orders/9"), "/users/{id}/orders/{order}");
  assert.equal(route("/users/7/orders/9/items"), "/users/{id}/*");
  assert.equal(route("/users/7/profile"), "/users/{id}/*");
});

test("of templates with as many static segments the one whose static segments come first wins", () => {
  for (const order of [0, 1]) {
    const templates = ["/users/{id}/orders", "/users/me/{tab}"];
    if (order === 1) templates.reverse();
    const route = compileTemplates(same(...templates));
    assert.equal(route("/users/me/orders"), "/users/me/{tab}");
    assert.equal(route("/users/7/orders"), "/users/{id}/orders");
    assert.equal(route("/users/me/x"), "/users/me/{tab}");
  }
  const more = compileTemplates(same("/users/{id}/{tab}", "/{any}/{id}/orders/{x}", "/*"));
  assert.equal(more("/users/7/orders"), "/users/{id}/{tab}");
  assert.equal(more("/users/7/orders/1"), "/{any}/{id}/orders/{x}");
  assert.equal(more("/users"), "/*");
});

/** Tries every template and ranks those that fit. */
function naive(templates: readonly string[], path: string): string | undefined {
  const split = (text: string) => text.split("/").filter((segment) => segment !== "");
  const segments = split(path.split("?")[0] ?? "");
  const fits = templates.flatMap((template) => {
    const parts = split(template);
    const open = parts.at(-1) === "*";
    const fixed = open ? parts.slice(0, -1) : parts;
    const long = open ? segments.length >= fixed.length : segments.length === fixed.length;
    const equal = fixed.every((part, at) => part.startsWith("{") || part === segments[at]);
    if (!long || !equal) return [];
    const isParameter = fixed.map((part) => part.startsWith("{"));
    const parameters = isParameter.filter((is) => is).length;
    const rank = [fixed.length - parameters, parameters, open ? 0 : 1];
    return [{ template, rank: [...rank, ...isParameter.map((is) => (is ? 0 : 1))] }];
  });
  fits.sort((a, b) => {
    const at = a.rank.findIndex((value, index) => value !== b.rank[index]);
    return (b.rank[at] ?? 0) - (a.rank[at] ?? 0);
  });
  return fits[0]?.template;
}

test("any path finds the same template as trying all of them", () => {
  const template = fc
    .tuple(
      fc.array(fc.constantFrom("a", "b", "c", "{p}"), { maxLength: 5 }),
      fc.constantFrom("", "/*"),
    )
    .map(([segments, end]) => `/${segments.join("/")}${end}`);
  const path = fc
    .tuple(
      fc.array(fc.constantFrom("a", "b", "c", "d", ""), { maxLength: 7 }),
      fc.constantFrom("", "/", "?a/b"),
    )
    .map(([segments, end]) => `/${segments.join("/")}${end}`);
  fc.assert(
    fc.property(
      fc.uniqueArray(template, { maxLength: 14 }),
      fc.array(path, { minLength: 1, maxLength: 20 }),
      (templates, paths) => {
        const route = compileTemplates(same(...templates));
        for (const each of paths) assert.equal(route(each), naive(templates, each), each);
      },
    ),
    { numRuns: 2000 },
  );
});
