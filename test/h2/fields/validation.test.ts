// Validation of request fields (RFC 9113 §8.1.1, §8.2, §8.3), rule by rule.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { RequestHead } from "#h2/exchange.ts";
import { areTrailersValid, readRequestHead } from "#h2/fields/validation.ts";
import { FieldList } from "#h2/hpack/field-list.ts";

function list(flat: readonly string[], maxSize = 65_536, maxFields = 1000): FieldList {
  const fields = new FieldList(maxSize, maxFields);
  for (let i = 0; i < flat.length; i += 2) fields.add(flat[i] ?? "", flat[i + 1] ?? "");
  return fields;
}

/** The head, unless it is malformed. */
function accepted(fields: FieldList): RequestHead | undefined {
  const head = readRequestHead(fields);
  return head?.flaw === "malformed" ? undefined : head;
}

const PSEUDO = [":method", "POST", ":scheme", "http", ":path", "/a/b"] as const;
const BASE = [...PSEUDO, ":authority", "host.test:80"] as const;
const head = (...more: readonly string[]) => accepted(list([...BASE, ...more]));

/** The request with one pseudo-header field replaced or left out. */
function withPseudo(name: string, value: string | undefined): readonly string[] {
  const flat: string[] = [];
  for (let i = 0; i < BASE.length; i += 2) {
    if (BASE[i] !== name) flat.push(BASE[i] ?? "", BASE[i + 1] ?? "");
    else if (value !== undefined) flat.push(name, value);
  }
  return flat;
}

describe("a valid request head", () => {
  test("returns its parts", () => {
    const fields = ["te", "trailers", "x-a", "1", "x-a", "", "content-length", "12"];
    assert.deepEqual(head(...fields), {
      method: "POST",
      path: "/a/b",
      scheme: "http",
      authority: "host.test:80",
      fields,
      size: list([...BASE, ...fields]).size,
      flaw: undefined,
      contentLength: 12,
      memo: undefined,
    });
  });

  test("is independent of the field list that it was read from", () => {
    const fields = list([...BASE, "x-a", "1"]);
    const read = accepted(fields);
    fields.add("x-b", "2");
    assert.deepEqual(read?.fields, ["x-a", "1"]);
  });

  test("accepts pseudo-header fields in any order", () => {
    const flat = [":path", "/", ":authority", "a", ":scheme", "https", ":method", "GET"];
    assert.equal(accepted(list(flat))?.method, "GET");
  });

  test("takes the authority from host if there is no :authority, else leaves it empty", () => {
    assert.equal(accepted(list([...PSEUDO, "host", "h"]))?.authority, "h");
    assert.equal(accepted(list(PSEUDO))?.authority, "");
    assert.equal(accepted(list([...PSEUDO, ":authority", ""]))?.authority, "");
  });

  test("accepts a host that repeats :authority, in another case or with the default port", () => {
    for (const host of ["host.test:80", "HOST.test:80", "host.test", "Host.Test"]) {
      assert.equal(head("host", host)?.authority, "host.test:80", host);
    }
    const secure = [":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a:443"];
    assert.ok(accepted(list([...secure, "host", "a"])));
    assert.equal(accepted(list([...secure, "host", "a:80"])), undefined);
  });

  for (const [name, value] of [
    [":method", "GET"],
    [":method", "M-SEARCH"],
    [":method", "get"],
    [":scheme", "https"],
    [":scheme", "HTTP"],
    [":scheme", "x+y-z.1"],
    [":path", "/"],
    [":path", '/?q=[{"a":1}]#f'],
    [":path", "/\u00e4"],
    [":authority", "[::1]:8080"],
    [":authority", "localhost"],
  ] as const)
    test(`${name}: ${value}`, () => assert.ok(accepted(list(withPseudo(name, value)))));

  test("OPTIONS *", () => {
    const flat = [":method", "OPTIONS", ":scheme", "http", ":path", "*"];
    assert.equal(accepted(list(flat))?.path, "*");
  });

  for (const [name, value] of [
    ["te", "trailers"],
    ["te", "Trailers"],
    ["x!#$%&'*+-.^_`|~09az", "v"],
    ["x-empty", ""],
    ["x-bytes", "\u0001\u007f\u0080\u00ff a\tb"],
    ["content-length", "0"],
    ["content-length", "007"],
    ["connections", "x"],
    ["upgraded", "x"],
    ["hose", "x"],
    ["up", "trailers"],
    ["keep-alivf", "x"],
    ["transfer-encodinh", "x"],
    ["proxy-connectiom", "x"],
    ["content-lengti", "x"],
  ] as const)
    test(`${name}: ${JSON.stringify(value)}`, () => {
      assert.deepEqual(head(name, value)?.fields, [name, value]);
      assert.equal(areTrailersValid(list([name, value])), true);
    });

  test("returns content-length as a number, -1 if absent", () => {
    assert.equal(head()?.contentLength, -1);
    assert.equal(head("content-length", "999999999999999")?.contentLength, 999_999_999_999_999);
  });
});

describe("malformed pseudo-header fields", () => {
  for (const [name, value] of [
    [":method", undefined],
    [":method", ""],
    [":method", "CONNECT"],
    [":method", "GE T"],
    [":method", "GET\r"],
    [":method", "G\u00c4T"],
    [":scheme", undefined],
    [":scheme", ""],
    [":scheme", "ht tp"],
    [":scheme", "http:"],
    [":path", undefined],
    [":path", ""],
    [":path", "*"],
    [":path", "a"],
    [":path", "http://host.test/"],
    [":path", "/a b"],
    [":path", "/a\tb"],
    [":path", "/a\r\nx"],
    [":path", "/\u0000"],
    [":path", "/\u007f"],
    [":authority", "user@host.test"],
    [":authority", "a b"],
    [":authority", "a\n"],
  ] as const)
    test(`${name}: ${JSON.stringify(value)}`, () =>
      assert.equal(accepted(list(withPseudo(name, value))), undefined));

  for (const name of [":method", ":scheme", ":path", ":authority"]) {
    test(`${name} twice`, () => {
      const value = BASE[BASE.indexOf(name as (typeof BASE)[number]) + 1] ?? "";
      assert.equal(accepted(list([...BASE, name, value])), undefined);
    });
    test(`${name} after a regular field`, () => {
      const value = BASE[BASE.indexOf(name as (typeof BASE)[number]) + 1] ?? "";
      const flat = [...withPseudo(name, undefined), "x-a", "1", name, value];
      assert.equal(accepted(list(flat)), undefined);
    });
  }

  for (const name of [":status", ":protocol", ":", ":Method", ":path ", ":other"]) {
    test(`unknown: ${name}`, () => {
      assert.equal(accepted(list([...BASE, name, "200"])), undefined);
      assert.equal(accepted(list([name, "200", ...BASE])), undefined);
    });
  }

  test("CONNECT in the form of RFC 9113 §8.5", () => {
    assert.equal(accepted(list([":method", "CONNECT", ":authority", "a:1"])), undefined);
  });

  test("an empty field list", () => assert.equal(accepted(list([])), undefined));
});

describe("malformed fields", () => {
  const names = [
    "",
    "Upper",
    "x-Y",
    "x y",
    "x\u0000",
    "x\u007f",
    "x\u0080",
    "x\u00ff",
    "x:y",
    "a:",
    "x\ty",
  ];
  for (const name of names) {
    test(`name ${JSON.stringify(name)}`, () => {
      assert.equal(head(name, "v"), undefined);
      assert.equal(areTrailersValid(list([name, "v"])), false);
    });
  }

  test("names with a byte that is not allowed in a token", () => {
    for (let code = 0; code < 256; code++) {
      const character = String.fromCharCode(code);
      const fine = /[!#$%&'*+\-.^_`|~0-9a-z]/.test(character);
      assert.equal(head(`x${character}`, "v") !== undefined, fine, JSON.stringify(character));
    }
  });

  for (const value of [
    " ",
    "\t",
    " a",
    "a ",
    "\ta",
    "a\t",
    "a\rb",
    "a\nb",
    "a\u0000b",
    "\r\n",
    "\u0000",
  ]) {
    test(`value ${JSON.stringify(value)}`, () => {
      assert.equal(head("x-a", value), undefined);
      assert.equal(areTrailersValid(list(["x-a", value])), false);
    });
  }

  for (const name of [
    "connection",
    "proxy-connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
  ])
    test(`the connection-specific field ${name}`, () => {
      assert.equal(head(name, "x"), undefined);
      assert.equal(head(name, ""), undefined);
      assert.equal(areTrailersValid(list([name, "x"])), false);
    });

  for (const value of ["", "gzip", "trailers, gzip", "trailers;q=1"])
    test(`te: ${value}`, () => assert.equal(head("te", value), undefined));

  for (const value of ["", "-1", "+1", "1.0", "1,1", "1 1", "0x1", "a", "1e3", "9".repeat(16)])
    test(`content-length: ${value}`, () => assert.equal(head("content-length", value), undefined));

  test("content-length twice, even with the same value", () =>
    assert.equal(head("content-length", "1", "content-length", "1"), undefined));

  for (const host of ["", "other.test", "host.test:81", "host.test:443", "u@host.test:80", "a b"])
    test(`host: ${JSON.stringify(host)}`, () => assert.equal(head("host", host), undefined));

  test("host twice", () => {
    assert.equal(head("host", "host.test:80", "host", "host.test:80"), undefined);
    assert.equal(accepted(list([...PSEUDO, "host", "a", "host", "a"])), undefined);
  });
});

describe("a malformed head", () => {
  const malformed = {
    fields: [],
    flaw: "malformed",
    contentLength: -1,
    method: "POST",
    path: "/a/b",
  };

  test("still has its method and path, and nothing else that could be used", () => {
    for (const more of [
      ["x", "\u0000"],
      ["te", "gzip"],
      ["Upper", "1"],
      ["content-length", "1", "content-length", "2"],
      ["connection", "close"],
      ["x-a", "1", ":path", "/other"],
      ["host", "other.test"],
    ]) {
      assert.partialDeepStrictEqual(
        readRequestHead(list([...BASE, ...more])),
        malformed,
        `${more}`,
      );
    }
    for (const authority of ["user@host.test", "a b"]) {
      const head = readRequestHead(list([...PSEUDO, ":authority", authority, "x-a", "1"]));
      assert.partialDeepStrictEqual(head, { ...malformed, authority: "" });
    }
  });

  test("is none where its method or path is not certain", () => {
    for (const name of [":method", ":path", ":scheme"]) {
      const value = BASE[BASE.indexOf(name as (typeof BASE)[number]) + 1] ?? "";
      assert.equal(readRequestHead(list([...BASE, name, value])), undefined);
      assert.equal(readRequestHead(list(withPseudo(name, undefined))), undefined);
      assert.equal(readRequestHead(list(withPseudo(name, "a b"))), undefined);
    }
  });
});

describe("trailers", () => {
  test("must not contain pseudo-header fields", () => {
    for (const name of [":status", ":path", ":method", ":x"]) {
      assert.equal(areTrailersValid(list([name, "200"])), false);
      assert.equal(areTrailersValid(list(["x-a", "1", name, "200"])), false);
    }
  });

  test("may be empty", () => assert.equal(areTrailersValid(list([])), true));
});

describe("field lists beyond the limits", () => {
  test("give a head without the fields that did not fit, marked as overflowed", () => {
    const found = accepted(list([...BASE, "x-a", "1", "x-b", "2"], 65_536, 5));
    assert.equal(found?.flaw, "too_large");
    assert.deepEqual(found.fields, ["x-a", "1"]);
    assert.equal(found.size, list([...BASE, "x-a", "1", "x-b", "2"]).size);
  });

  test("need not contain a pseudo-header field that did not fit", () => {
    const fields = list(
      [":method", "GET", ":path", `/${"x".repeat(5000)}`, ":scheme", "http"],
      4096,
    );
    const found = accepted(fields);
    assert.deepEqual([found?.flaw, found?.method, found?.path], ["too_large", "GET", ""]);
    assert.equal(accepted(list(["x-a", "x".repeat(5000)], 4096))?.flaw, "too_large");
  });

  test("are still validated as far as they fit", () => {
    assert.equal(accepted(list([...BASE, "Upper", "1", "x-b", "2"], 65_536, 5)), undefined);
  });
});

test("validates any fields without throwing, and accepts only clean ones", () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          fc.oneof(fc.constantFrom("host", "te", "upgrade", ":path", "x"), fc.string()),
          fc.oneof(fc.constantFrom("", "a", "1", "trailers"), fc.string({ unit: "binary-ascii" })),
        ),
        { maxLength: 6 },
      ),
      (pairs) => {
        for (const flat of [pairs.flat(), [...BASE, ...pairs.flat()]]) {
          const found = accepted(list(flat));
          for (let i = 0; i < (found?.fields.length ?? 0); i += 2) {
            assert.match(found?.fields[i] ?? "", /^[!#$%&'*+\-.^_`|~0-9a-z]+$/);
            assert.doesNotMatch(found?.fields[i + 1] ?? "", /[\0\r\n]|^[ \t]|[ \t]$/);
          }
        }
      },
    ),
    { numRuns: 300 },
  ));
