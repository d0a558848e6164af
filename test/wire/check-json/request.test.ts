import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { checkFromJson, checkHttpFromJson, flowEndFromJson } from "#wire/check-json/request.ts";
import { parseBody } from "#wire/json/strict.ts";

const names = new HeaderNames(seededChance(1));
const http = (text: string) => checkHttpFromJson(Buffer.from(text), names);

function refused(read: () => unknown, message?: RegExp) {
  assert.throws(read, (thrown) => {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    assert.equal(thrown.http, 400);
    if (message !== undefined) assert.match(thrown.message, message);
    return true;
  });
}

describe("strict JSON", () => {
  it("reads ordinary documents like JSON.parse", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        assert.deepEqual(
          parseBody(Buffer.from(JSON.stringify(value)))?.value,
          JSON.parse(JSON.stringify(value)),
        );
      }),
    );
  });

  it("reads an empty or blank body as undefined", () => {
    for (const body of ["", "   ", "\n\t "]) assert.equal(parseBody(Buffer.from(body)), undefined);
    assert.equal(http("  ").controlPoint, "");
  });

  it("refuses anything that is not exactly one value", () => {
    const bad = [
      "{",
      '{"a":',
      '{"a":1} x',
      '{"a":1}{"a":1}',
      "{'a':1}",
      "{a:1}",
      '{"a":1,}',
      "/*c*/{}",
      "\ufeff{}",
      "NaN",
      "01",
      '{"a":+1}',
      '"\u0001"',
      "[1,]",
      "tru",
    ];
    for (const body of bad) refused(() => parseBody(Buffer.from(body)));
  });

  it("refuses duplicate members, wherever they are and however their names are escaped", () => {
    const bad = [
      '{"a":1,"a":1}',
      '{"a":{"b":1,"b":2}}',
      '[{"x":[{"k":1,"k":1}]}]',
      '{"__proto__":1,"__proto__":2}',
      '{"a":1,"\\u0061":2}',
      '{"":0,"":0}',
    ];
    for (const body of bad) refused(() => parseBody(Buffer.from(body)), /twice/);
    refused(() => http('{"control_point":"a","controlPoint":"a"}'), /twice/);
  });

  it("distinguishes names with escaped quotes and backslashes, whatever it has parsed before", () => {
    assert.ok(parseBody(Buffer.from('{"a":1,"\\\\":2}')) !== undefined);
    assert.ok(parseBody(Buffer.from('{"a":1,"\\"":2,"\\\\":3}')) !== undefined);
    for (const body of ['{"a":1,"\\"":2,"\\"":3}', '{"\\"":1,"\\"":2}', '{"\\\\":1,"\\u005c":2}']) {
      for (let turn = 0; turn < 3; turn++) refused(() => parseBody(Buffer.from(body)), /twice/);
    }
  });

  it("counts members correctly, whatever the strings contain", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, two) => {
        fc.pre(one !== two);
        const body = `{${JSON.stringify(one)}:${JSON.stringify(`"a":${two}\\`)},${JSON.stringify(two)}:[1]}`;
        assert.ok(parseBody(Buffer.from(body)) !== undefined);
        const twice = `{${JSON.stringify(one)}:1,${JSON.stringify(one)}:2}`;
        refused(() => parseBody(Buffer.from(twice)));
      }),
      {
        examples: [
          ['"', ""],
          ["\\", '"'],
          ['"', "\\"],
        ],
      },
    );
  });

  it("refuses lone surrogates and bytes that are not UTF-8", () => {
    for (const body of ['"\\ud800"', '{"\\udfff":1}', '[["a\\ud83dx"]]']) {
      refused(() => parseBody(Buffer.from(body)), /surrogate/);
    }
    assert.equal(parseBody(Buffer.from('"\\ud83d\\ude00"'))?.value, "😀");
    refused(() => parseBody(Buffer.from([0x22, 0xff, 0x22])), /UTF-8/);
  });

  it("replaces them where it is asked to", () => {
    const read = (body: string) =>
      parseBody(Buffer.from(body, "latin1"), undefined, "repair")?.value;
    const cases: readonly (readonly [string, unknown])[] = [
      ['"\\ud800"', "\ufffd"],
      ['"\\udc00\\uD83D\\uDE00\\ud83d"', "\ufffd😀\ufffd"],
      ['"\\\\ud800\\ud800"', "\\ud800\ufffd"],
      ['"a\xffb"', "a\xffb"],
      ['"a\xfeb"', "a\xfeb"],
      ['"\xc3\xa9\xff"', "é\xff"],
      ['"\xe2\x82\xac\xe2\x82"', "€\xe2\x82"],
      ['"\xf0\x9f\x98\x80\xf0\x9f\x98"', "😀\xf0\x9f\x98"],
      // Overlong forms, surrogates, and beyond the last character.
      ['"\xc0\x80"', "\xc0\x80"],
      ['"\xe0\x9f\xbf"', "\xe0\x9f\xbf"],
      ['"\xf0\x8f\xbf\xbf"', "\xf0\x8f\xbf\xbf"],
      ['"\xed\xa0\x80"', "\xed\xa0\x80"],
      ['"\xf4\x90\x80\x80"', "\xf4\x90\x80\x80"],
      ['"\xff\\ud800"', "\xff\ufffd"],
      // Different names that become the same one are not a member that is there twice.
      ['{"\xff":1,"\xfe":2,"b":3}', { "\xff": 1, "\xfe": 2, b: 3 }],
      ['{"\xff":1,"\xc3\xbf":2,"b":3}', { "\xff": 2, b: 3 }],
      ['{"\\ud800":1,"\\ud801":2,"b":3}', { "\ufffd": 2, b: 3 }],
    ];
    for (const [body, wanted] of cases) assert.deepEqual(read(body), wanted, body);
    refused(() => read('{"a":1,"a":"\xff"}'), /twice/);
    refused(() => read('{"a":1,"\\u0061":"\\ud800"}'), /twice/);
    refused(() => read('{"a\xff'), /not valid JSON/);
  });

  it("refuses nesting deeper than 64 before parsing, and accepts 64", () => {
    const nested = (depth: number) => Buffer.from("[".repeat(depth) + "]".repeat(depth));
    assert.ok(parseBody(nested(64)) !== undefined);
    refused(() => parseBody(nested(65)), /64/);
    refused(() => parseBody(nested(200_000)), /64/);
    assert.ok(parseBody(Buffer.from(`"${"[".repeat(100)}"`)) !== undefined);
  });

  it("never repeats the input in a message", () => {
    const bodies = [
      '{"secret":',
      '{"secret":1,"secret":1}',
      '{"control_point":{"secret":1}}',
      '{"request":{"method":"secret","size":true}}',
    ];
    for (const body of bodies) {
      assert.throws(
        () => http(body),
        (thrown) => thrown instanceof Fault && !thrown.message.includes("secret"),
      );
    }
  });
});

describe("requests in JSON", () => {
  it("read sizes as numbers or strings, exactly, and refuse other values, but no text", () => {
    const size = (json: string) => http(`{"request":{"size":${json}}}`).request?.sizeText;
    const good = [
      ["0", "0"],
      ["7", "7"],
      ['"7"', "7"],
      ['"007"', "7"],
      ['"000"', "0"],
      ["-1", "-1"],
      ['"-1"', "-1"],
      ["null", "0"],
      ["-0", "0"],
      ["1.2e1", "12"],
      ['"1.2e1"', "12"],
      ["1.0", "1"],
      ['"100e-2"', "1"],
      ['"0e9"', "0"],
      ["9223372036854775807", "9223372036854775807"],
      ['"9223372036854775807"', "9223372036854775807"],
      ["-9223372036854775808", "-9223372036854775808"],
      ["9007199254740993", "9007199254740993"],
      ['"9.223372036854775807e18"', "9223372036854775807"],
    ];
    for (const [json = "", wanted] of good) assert.equal(size(json), wanted, json);
    const unusable = [
      '""',
      '"abc"',
      '" 5 "',
      '"9223372036854775808"',
      '"1e400"',
      '"0x10"',
      '"+5"',
      '"NaN"',
      '"Infinity"',
      '"1e-1"',
      '"1_000"',
      '"-"',
      '"-05"',
      '"5, 5"',
    ];
    for (const json of unusable) assert.equal(size(json), "0", json);
    const bad = ["1.5", "true", "[]", "{}", "9223372036854775808", "1e19", "1e400"];
    for (const json of bad) refused(() => size(json), /size/);
  });

  it("read ports as numbers or strings, and protocols as names or numbers", () => {
    const source = (json: string) => http(`{"source":${json}}`).source;
    assert.deepEqual(source('{"address":"a","port":"80"}'), {
      protocol: 0,
      address: "a",
      port: 80,
    });
    assert.deepEqual(source('{"address":"a","port":99999,"protocol":"UDP"}'), {
      protocol: 1,
      address: "a",
      port: 99_999,
    });
    assert.equal(source('{"protocol":7}')?.protocol, 7);
    assert.equal(source('{"address":"a","port":""}')?.port, 0);
    assert.equal(source('{"protocol":"udp"}')?.protocol, 1);
    assert.equal(source('{"protocol":""}')?.protocol, 0);
    assert.equal(source("null"), undefined);
    for (const json of [
      '{"port":-1}',
      '{"port":1.5}',
      '{"port":"x"}',
      '{"port":4294967296}',
      '{"protocol":1.5}',
      '{"protocol":true}',
      '{"protocol":"SCTP"}',
      '{"protocol":"1"}',
      '"10.0.0.1:80"',
      "[]",
    ]) {
      refused(() => source(json));
    }
  });

  it("accept a repeated header as a list", () => {
    const { request } = http('{"request":{"headers":{"a":["1","2"],"b":"3","c":[]}}}');
    assert.equal(request?.header("a"), "1,2");
    assert.equal(request?.header("b"), "3");
    assert.equal(request?.header("c"), undefined);
    for (const value of [
      '{"a":1}',
      '{"a":null}',
      '{"a":[1]}',
      '{"a":[null]}',
      '["a"]',
      '{"a":{}}',
    ]) {
      refused(() => http(`{"request":{"headers":${value}}}`), /headers/);
    }
  });

  it("refuse members of another type", () => {
    const bad = [
      '{"control_point":5}',
      '{"control_point":["a"]}',
      '{"request":"GET /"}',
      '{"request":[]}',
      '{"request":{"method":1}}',
      '{"request":{"body":{"a":1}}}',
      '{"ramp_mode":"true"}',
      '{"expect_end":1}',
      "null",
      "[]",
      '"text"',
      "5",
      "true",
    ];
    for (const body of bad) refused(() => http(body));
    const ok =
      '{"request":{"path":null,"method":null,"headers":null,"body":null},"ramp_mode":null}';
    assert.equal(http(ok).request?.path, "");
  });

  it("ignore unknown members, and accept both spellings of known ones", () => {
    const read = http(
      '{"controlPoint":"cp","rampMode":true,"future":{"a":[1,{"b":null}]},"expect_end":true}',
    );
    assert.deepEqual([read.controlPoint, read.rampMode, read.expectEnd], ["cp", true, true]);
  });

  it("treat names of Object's own properties as plain data", () => {
    const labels = '{"__proto__":"p","constructor":"c","toString":"t","hasOwnProperty":"h"}';
    const read = checkFromJson(Buffer.from(`{"labels":${labels}}`)).labels;
    assert.deepEqual([...read.values()].sort(), ["c", "h", "p", "t"]);
    assert.equal(read.get("__proto__"), "p");
    const { request } = http(`{"request":{"headers":${labels}},"__proto__":{"control_point":"x"}}`);
    assert.equal(request?.header("__proto__"), "p");
    assert.equal(request?.header("valueOf"), undefined);
    assert.equal(http('{"__proto__":{"control_point":"x"}}').controlPoint, "");
  });

  it("refuse more than 1000 header values, counting each item of a list", () => {
    const list = JSON.stringify(Array.from({ length: 1_001 }, () => "v"));
    assert.equal(http(`{"request":{"headers":{"a":${list}}}}`).request?.refusal?.status, 431);
    assert.equal(http('{"request":{"headers":{"a":"b"}}}').request?.refusal, undefined);
  });

  it("read the ends of flows", () => {
    const ref =
      '{"policyName":"p","policy_hash":"h","component_id":"c","label":"l","request_id":"r","tokens":"1.5"}';
    const { refs } = flowEndFromJson(
      Buffer.from(`{"control_point":"cp","inflight_requests":[${ref}]}`),
    );
    assert.deepEqual(refs, [
      {
        policyName: "p",
        policyHash: "h",
        componentId: "c",
        label: "l",
        requestId: "r",
        tokens: 1.5,
      },
    ]);
    const bad = [
      '{"inflight_requests":{}}',
      '{"inflight_requests":[1]}',
      '{"inflight_requests":[null]}',
      '{"inflight_requests":[{"tokens":"NaN"}]}',
      '{"inflight_requests":[{"tokens":1e999}]}',
    ];
    for (const body of bad) refused(() => flowEndFromJson(Buffer.from(body)));
  });
});
