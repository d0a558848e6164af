import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Bench, counts, samplerRule, share } from "./setup.ts";

const ODD_SESSIONS = [
  "é",
  "日本",
  "",
  " ",
  "A",
  "a",
  "aa",
  "aaa",
  "0",
  "00",
  "-",
  "😀",
  "Zażółć",
  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
  "tab\tx",
  "Session-1",
  "SESSION-1",
  "session 1",
  "null",
  "undefined",
];

const RECORDED = [
  "session-24",
  "session-25",
  "session-26",
  "session-50",
  "session-51",
  "session-52",
  "session-53",
  "session-54",
  "session-55",
  "session-80",
  "session-81",
  "session-82",
  "session-83",
  "session-86",
  "session-94",
  "session-95",
  "950280",
  "974037",
  "1005713",
  "1148255",
  "u167@example.org",
  "u172@example.org",
];

test("0 and 100 percent, labels as recorded, no wait", () => {
  const all = new Bench(samplerRule(), share(100));
  const none = new Bench(samplerRule(), share(0));
  assert.deepEqual(counts(all.take()), [false, 0, 0, 0, -1]);
  assert.equal(all.take().label, ":");
  assert.equal(none.take().dropped, true);
  const session = samplerRule({ sessionLabelKey: "s" });
  assert.equal(new Bench(session, share(100)).take({ s: "x" }).label, "s:x");
  assert.equal(new Bench(session, share(100)).take({}).label, "s:");
  for (const values of [{ s: "x" }, {}]) {
    assert.equal(new Bench(session, share(100)).take(values).dropped, false);
    assert.equal(new Bench(session, share(0)).take(values).dropped, true);
  }
  assert.deepEqual(all.context.anomalies, []);
});

test("before numbers, after removal and on an invalid signal: everything passes, or nothing on a ramp", () => {
  for (const rampMode of [false, true]) {
    const bench = new Bench(samplerRule({ rampMode }));
    assert.equal(bench.limiter.component.kind, rampMode ? "ramp_sampler" : "sampler");
    assert.equal(bench.take().dropped, rampMode);
    bench.limiter.decide(share(rampMode ? 100 : 0));
    assert.equal(bench.take().dropped, !rampMode);
    for (const numbers of [undefined, share(Number.NaN), share(Number.POSITIVE_INFINITY)]) {
      bench.limiter.decide(numbers);
      assert.equal(bench.take().dropped, rampMode);
    }
  }
});

test("which of 200 sessions pass at 10 percent: as recorded", () => {
  const rule = samplerRule({ sessionLabelKey: "session", hash: "fnv1a" });
  const bench = new Bench(rule, share(10));
  const sessions = [
    ...Array.from({ length: 120 }, (_, index) => `session-${index}`),
    ...Array.from({ length: 40 }, (_, index) => String(7_919 * (120 + index))),
    ...Array.from({ length: 20 }, (_, index) => `u${160 + index}@example.org`),
    ...ODD_SESSIONS,
  ];
  assert.equal(sessions.length, 200);
  const passing = sessions.filter((session) => !bench.take({ session }).dropped);
  assert.deepEqual(passing, RECORDED);
});

test("without a session the share applies to flows; a session's answer never changes", () => {
  const bench = new Bench(samplerRule({ sessionLabelKey: "s" }), share(30));
  let passed = 0;
  for (let flow = 0; flow < 10_000; flow++) if (!bench.take({}).dropped) passed++;
  assert.ok(Math.abs(passed - 3_000) < 200, String(passed));
  fc.assert(
    fc.property(fc.string(), fc.nat(100), fc.nat(100), (s, one, other) => {
      const first = new Bench(samplerRule({ sessionLabelKey: "s" }), share(one)).take({ s });
      const second = new Bench(samplerRule({ sessionLabelKey: "s" }), share(one)).take({ s });
      assert.equal(first.dropped, second.dropped);
      const more = new Bench(samplerRule({ sessionLabelKey: "s" }), share(Math.max(one, other)));
      if (!first.dropped) assert.equal(more.take({ s }).dropped, false);
    }),
  );
});

test("values that always pass: matched exactly, replaced with each decision, absent is not empty", () => {
  const rule = samplerRule({ sessionLabelKey: "user" });
  const bench = new Bench(rule, share(0, ["ann", "bob", ""]));
  const passes = (values: Readonly<Record<string, string>>) => !bench.take(values).dropped;
  assert.ok(passes({ user: "ann" }) && passes({ user: "bob" }) && passes({ user: "" }));
  assert.ok(!passes({ user: "Ann" }) && !passes({ user: "carl" }));
  assert.ok(!passes({}) && !passes({ name: "ann" }));
  bench.limiter.decide(share(0, ["carl"]));
  assert.ok(passes({ user: "carl" }) && !passes({ user: "ann" }));
  const keyless = new Bench(samplerRule(), share(0, ["ann"]));
  assert.equal(keyless.take({ user: "ann" }).dropped, true);
});
