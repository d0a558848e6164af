import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Json, parseJson } from "#flow/classify/formats/json.ts";
import { parsePointer } from "#flow/classify/formats/pointer.ts";
import { isUnreadable, MALFORMED, TOO_LARGE } from "#flow/classify/unreadable.ts";
import { heldBytes } from "../../kit/attack/memory.ts";

function documentOf(source: string): Json | undefined {
  const document = parseJson(source);
  return isUnreadable(document) ? undefined : document;
}

function text(source: string, pointer: string): string | undefined {
  return documentOf(source)?.text(parsePointer(pointer));
}

test("values become text: strings as they are, numbers in one form, the rest as JSON", () => {
  const cases: readonly [string, string, string | undefined][] = [
    ['{"user":"ann"}', "/user", "ann"],
    ['{"user":7}', "/user", "7"],
    ['{"user":7.0}', "/user", "7"],
    ['{"user":7.00 }', "/user", "7"],
    ['{"user":7e0}', "/user", "7"],
    ['{"user":0.7E+1}', "/user", "7"],
    ['{"user":7.0000000000000000001}', "/user", "7"],
    ['{"user":-7}', "/user", "-7"],
    ['{"user":1.50}', "/user", "1.5"],
    ['{"user":1e3}', "/user", "1000"],
    ['{"user":-0}', "/user", "0"],
    ['{"user":9007199254740992}', "/user", "9007199254740992"],
    ['{"user":9007199254740992.0}', "/user", "9007199254740992"],
    ['{"user":12345678901234567890}', "/user", "12345678901234567000"],
    ['{"user":1e400}', "/user", "Infinity"],
    ['{"user":true}', "/user", "true"],
    ['{"user":false}', "/user", "false"],
    ['{"user":null}', "/user", "null"],
    ['{"user":""}', "/user", ""],
    ['{"a":{"b":{"c":"deep"}}}', "/a/b/c", "deep"],
    ['{"a":{"b":"c"}}', "/a/b/c", undefined],
    ['{"list":["zero",{"id":5}]}', "/list/0", "zero"],
    ['{"list":["zero",{"id":5}]}', "/list/1/id", "5"],
    ['{"num":{"7":"seven"}}', "/num/7", "seven"],
    ['{"num":[0,1,2,3,4,5,6,"idx7"]}', "/num/7", "idx7"],
    ['{"num":[0,1,2,3,4,5,6,"idx7"]}', "/num/07", undefined],
    ['{"num":{"07":1}}', "/num/07", "1"],
    ['{"num":[1]}', "/num/-", undefined],
    ['{"num":[1]}', "/num/length", undefined],
    ['{"num":[1]}', "/num/1", undefined],
    ['{"x/y":"s"}', "/x~1y", "s"],
    ['{"~1":3}', "/~01", "3"],
    ['{"":{"":2}}', "//", "2"],
    ['"text"', "", "text"],
    [" 5 ", "", "5"],
    ["5", "/a", undefined],
    ["[1,2]", "", "[1,2]"],
    ["[ 1 , { } , [ ] ]", "", "[1,{},[]]"],
    [' {"v" : [ 1, "a b", null , true ] } ', "/v", '[1,"a b",null,true]'],
    ['{"v":{"2":1.0,"1":{"c":[]}}}', "/v", '{"2":1.0,"1":{"c":[]}}'],
    ['{"v":["\\u0061\\"\\n"]}', "/v", '["a\\"\\n"]'],
    ['{"\\u0061":10}', "/a", "10"],
    ['{"user":1,"user":{"a":2},"user":3}', "/user", "3"],
    ["not json", "", undefined],
    ["", "", undefined],
    ['{"user":"a"', "/user", undefined],
    ["01", "", undefined],
    ["NaN", "", undefined],
  ];
  for (const [source, pointer, wanted] of cases) {
    assert.equal(text(source, pointer), wanted, `${source} ${pointer}`);
  }
});

test("names that objects inherit are not found as members", () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    assert.equal(text("{}", `/${name}`), undefined);
    assert.equal(text('{"a":{}}', `/a/${name}/${name}`), undefined);
  }
  assert.equal(text('{"__proto__":{"admin":1}}', "/__proto__/admin"), "1");
  assert.equal(text('{"__proto__":{"admin":1}}', "/admin"), undefined);
  assert.equal(text('{"constructor":5}', "/constructor"), "5");
});

test("names that end in a quote and in a backslash are not mixed up", () => {
  for (let round = 0; round < 3; round++) {
    assert.equal(text('{"q":1,"q\\\\":2}', "/q\\"), "2");
    assert.equal(text('{"q":1,"q\\\\":2}', '/q"'), undefined);
    assert.equal(text('{"q":1,"q\\"":3}', '/q"'), "3");
    assert.equal(text('{"q":1,"q\\"":3}', "/q\\"), undefined);
    assert.equal(text('{"q":1,"q\\"":3}', ""), '{"q":1,"q\\"":3}');
  }
});

/** Every pointer of a value, with what it means. */
function* places(value: unknown, pointer = ""): Generator<readonly [string, unknown]> {
  yield [pointer, value];
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    yield* places(member, `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`);
  }
}

test("every member of any document is found, whatever its white space", () => {
  const name = fc.oneof(
    fc.constantFrom("", "~", "/", "~1", '"', "\\", "__proto__", "0"),
    fc.string(),
  );
  const tree = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(
        fc.string({ unit: "binary" }),
        fc.integer(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
      ),
      fc.constantFrom<unknown>(true, false, null, "]", '}"{', "\\", " , "),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(name, tie("value"), { maxKeys: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(tree, fc.constantFrom(undefined, 2, "\t", "\r\n "), (value, indent) => {
      const source = JSON.stringify(value, undefined, indent);
      const document = documentOf(source);
      for (const [pointer, meant] of places(value)) {
        const wanted = typeof meant === "string" ? meant : JSON.stringify(meant);
        assert.equal(document?.text(parsePointer(pointer)), wanted);
      }
    }),
    { numRuns: 500 },
  );
});

test("depth 64 is accepted, 65 is not, and brackets in strings do not count", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  assert.equal(text(nested(64), ""), nested(64));
  assert.equal(parseJson(nested(65)), TOO_LARGE);
  assert.equal(parseJson(`{"a":"${"]".repeat(200)}","b":${nested(64)}}`), TOO_LARGE);
  assert.equal(text(`["${"[".repeat(500)}"]`, "/0"), "[".repeat(500));
  assert.equal(text(`["${'\\"['.repeat(500)}"]`, "/0"), '"['.repeat(500));
  assert.equal(text(`[${"[],".repeat(500)}1]`, "/500"), "1");
});

test("a document of the largest size is read, one character more is refused", () => {
  const size = 1 << 20;
  const body = `{"a":"${"\\\\".repeat((size - 20) / 2)}","n":10.0}`.padEnd(size);
  assert.equal(body.length, size);
  assert.equal(text(body, "/n"), "10");
  assert.equal(parseJson(`${body} `), TOO_LARGE);
  assert.equal(parseJson("{"), MALFORMED);
  assert.equal(parseJson("[".repeat(size)), MALFORMED);
});

test("keeping a label does not keep its document in memory", () => {
  const count = 100;
  const size = 200_000;
  const kept: (string | undefined)[] = [];
  const before = heldBytes();
  for (let n = 0; n < count; n++) {
    const source = `{"user":"somebody with a long name ${n}"}`.padEnd(size);
    kept.push(text(Buffer.from(source).toString(), "/user"));
  }
  const grown = heldBytes() - before;
  assert.equal(kept.at(-1), `somebody with a long name ${count - 1}`);
  assert.ok(grown < (count * size) / 4, `${grown} bytes for ${kept.length} labels`);
});
