// Samples are kept only where a query looks, and never more than the limits.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { QueryCompiler } from "#promql/evaluate.ts";
import { LocalQueryEngine } from "#promql/local-engine.ts";
import type { Sample } from "#promql/result.ts";
import { SampleStore } from "#promql/samples.ts";

const S = 1000;

function sample(name: string, value: number, labels: Sample["labels"] = {}): Sample {
  return { labels: { __name__: name, ...labels }, value };
}

function numberOf(store: SampleStore, query: string, at: number): number | undefined {
  const result = new QueryCompiler().compile(query)(at, store);
  assert.ok(result.kind === "vector");
  assert.ok(result.samples.length < 2);
  return result.samples[0]?.value;
}

test("only series that queries select are stored", () => {
  const store = new SampleStore();
  store.setQueries(["sum(rate(a[1m])) / b{x='1'}", "{__name__=~'c.*'}", "not ( a query"]);
  assert.deepEqual(
    ["a", "b", "cc", "d"].map((name) => store.needs(name)),
    [true, true, true, false],
  );
  store.addScrape(S, [
    sample("a", 1),
    sample("b", 1),
    sample("b", 1, { x: "1" }),
    sample("cc", 1),
    sample("d", 1),
  ]);
  assert.equal(store.series, 3);
  store.setQueries(["a"]);
  assert.deepEqual([store.series, store.needs("cc")], [1, false]);
  store.setQueries([]);
  assert.deepEqual([store.series, store.capacity, store.dropped], [0, 0, 0]);
});

test("memory depends on the longest range, not on the time that passes", () => {
  const store = new SampleStore();
  store.setQueries(["a", "increase(b[1m] offset 1m)"]);
  const rooms: number[] = [];
  for (let second = 1; second <= 2_000; second++) {
    store.addScrape(second * S, [sample("a", second), sample("b", second)]);
    if (second % 500 === 0) rooms.push(store.capacity);
  }
  assert.ok((rooms[0] ?? 0) <= 16 + 256, `${rooms}`);
  assert.equal(rooms.at(-1), rooms[0]);
  assert.equal(numberOf(store, "increase(b[1m] offset 1m)", 2_000 * S), 60);
  assert.equal(numberOf(store, "a", 2_000 * S), 2_000);
  assert.equal(numberOf(store, "a", 1_995 * S), 1_995, "a late evaluation");
  store.setQueries(["a", "b"]);
  assert.ok(store.capacity < (rooms[0] ?? 0), "a shorter look back gives room back");
  assert.equal(numberOf(store, "b", 2_000 * S), 2_000);
});

test("a longer range starts with the samples that are there", () => {
  const store = new SampleStore();
  store.setQueries(["a"]);
  for (let second = 1; second <= 100; second++) store.addScrape(second * S, [sample("a", second)]);
  store.setQueries(["count_over_time(a[1m])"]);
  for (let second = 101; second <= 200; second++)
    store.addScrape(second * S, [sample("a", second)]);
  assert.equal(numberOf(store, "count_over_time(a[1m])", 200 * S), 60);
});

test("a series that is missing from a scrape ends there, and is removed when no query looks that far back", () => {
  const store = new SampleStore();
  store.setQueries(["a", "sum_over_time(a[30s])"]);
  const first = sample("a", 1);
  store.addScrape(10 * S, [first]);
  store.addScrape(20 * S, []);
  assert.equal(numberOf(store, "a", 15 * S), 1);
  assert.equal(numberOf(store, "a", 20 * S), undefined);
  assert.equal(numberOf(store, "sum_over_time(a[30s])", 35 * S), 1);
  store.addScrape(30 * S, [sample("a", 5)]);
  assert.equal(numberOf(store, "a", 30 * S), 5);
  assert.equal(numberOf(store, "sum_over_time(a[30s])", 30 * S), 6);
  store.addScrape(40 * S, []);
  store.addScrape(79 * S, []);
  assert.equal(store.series, 1);
  store.addScrape(80 * S, []);
  assert.deepEqual([store.series, store.capacity], [0, 0]);
  const again = [{ ...first, value: 7 }];
  store.addScrape(90 * S, again);
  store.addScrape(100 * S, again);
  assert.equal(numberOf(store, "sum_over_time(a[30s])", 100 * S), 14);
});

test("without scrapes a value lives for five minutes", () => {
  const store = new SampleStore();
  store.setQueries(["a"]);
  store.addScrape(10 * S, [sample("a", 1)]);
  assert.equal(numberOf(store, "a", 310 * S - 1), 1);
  assert.equal(numberOf(store, "a", 310 * S), undefined);
});

test("the limits hold, and what exceeds them is counted", () => {
  const store = new SampleStore({ series: 3, samples: 64 });
  store.setQueries(["count_over_time(a[1h])"]);
  for (let second = 1; second <= 100; second++) {
    const scrape = Array.from({ length: 5 }, (_, x) => sample("a", second, { x: String(x) }));
    store.addScrape(second * S, scrape);
    assert.ok(store.series <= 3 && store.capacity <= 64);
  }
  assert.ok(store.dropped >= 200, "two series");
  const result = new QueryCompiler().compile("last_over_time(a[1h])")(100 * S, store);
  assert.deepEqual(
    result.kind === "vector" && result.samples.map(({ value }) => value),
    [100, 100, 100],
    "the newest samples are those that stay",
  );
  const counted = new QueryCompiler().compile("sum(count_over_time(a[1h]))")(100 * S, store);
  const kept = counted.kind === "vector" ? (counted.samples[0]?.value ?? 0) : 0;
  assert.equal(kept + store.dropped, 500);
});

test("small corrections of the clock and duplicate series are ignored", () => {
  const store = new SampleStore();
  store.setQueries(["a", "count_over_time(a[1m])"]);
  store.addScrape(3 * S, [sample("a", 1), sample("a", 2)]);
  store.addScrape(3 * S, [sample("a", 3)]);
  store.addScrape(S, [sample("a", 4), sample("a", 4, { late: "yes" })]);
  assert.equal(numberOf(store, "a", 3 * S), 1);
  assert.equal(numberOf(store, "count_over_time(a[1m])", 3 * S), 1);
  assert.deepEqual([store.dropped, store.restarts], [0, 0]);
});

test("setting the clock back clears the store", () => {
  const store = new SampleStore();
  const hour = 3_600 * S;
  const scrape = [sample("a", 1)];
  store.setQueries(["a", "sum_over_time(a[1h])"]);
  for (let second = 1; second <= 20; second++) store.addScrape(hour + second * S, scrape);
  for (let second = 1; second <= 10; second++) {
    store.addScrape(second * S, scrape);
    assert.equal(numberOf(store, "a", second * S), 1);
  }
  assert.equal(numberOf(store, "sum_over_time(a[1h])", hour), 10);
  assert.equal(numberOf(store, "sum_over_time(a[1h])", hour + 20 * S), undefined, "none is left");
  assert.deepEqual([store.restarts, store.dropped, store.series], [1, 0, 1]);
  assert.ok(store.capacity <= 32, `${store.capacity}`);
});

test("a series is stored once a query selects it", () => {
  const store = new SampleStore();
  // Scrapes bring the same objects of labels again.
  const scrape = [sample("a", 1, { x: "1" }), sample("a", 2, { x: "2" })];
  store.setQueries(["a{x='1'}"]);
  store.addScrape(S, scrape);
  assert.equal(store.series, 1);
  store.setQueries(["a{x='2'}"]);
  store.addScrape(2 * S, scrape);
  assert.equal(numberOf(store, "a{x='2'}", 2 * S), 2);
  assert.equal(numberOf(store, "a{x='1'}", 2 * S), undefined);
});

test("label sets are distinguished by content, whatever the names and their order", () => {
  const store = new SampleStore();
  store.setQueries(["count(a)", "a"]);
  store.addScrape(S, [
    sample("a", 1, { constructor: "x", b: "1" }),
    sample("a", 1, { b: "1", constructor: "x" }),
    sample("a", 1, { b: "1", toString: "x" }),
    sample("a", 1, { b: "1", empty: "" }),
    sample("a", 1, { b: "1" }),
    sample("a", 1, { b: '1",c="2' }),
    sample("a", 1, { b: "1", c: "2" }),
  ]);
  assert.equal(numberOf(store, "count(a)", S), 5);
  assert.equal(numberOf(store, "count(a{constructor=''})", S), 4);
});

test("results are the same as if all samples were stored", () => {
  const window = "sum_over_time(a[20s] offset 7s)";
  fc.assert(
    fc.property(
      fc.array(fc.record({ gap: fc.integer({ min: 1, max: 15 }), there: fc.boolean() }), {
        minLength: 1,
        maxLength: 80,
      }),
      (scrapes) => {
        const store = new SampleStore();
        store.setQueries([window, "a"]);
        const all: [number, number][] = [];
        let at = 0;
        for (const { gap, there } of scrapes) {
          at += gap;
          store.addScrape(at * S, there ? [sample("a", at)] : []);
          if (there) all.push([at, at]);
          const inside = all.filter(([time]) => time > at - 27 && time <= at - 7);
          const wanted =
            inside.length > 0 ? inside.reduce((sum, [, value]) => sum + value, 0) : undefined;
          assert.equal(numberOf(store, window, at * S), wanted);
          assert.equal(numberOf(store, "a", at * S), there ? at : undefined);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("queries that differ only in the values of matchers share their closures, and have results of their own", () => {
  const store = new SampleStore();
  const compiler = new QueryCompiler();
  const texts = ["one", "two"].map((who) => `2 * a{who="${who}"} + ignoring(who) b{who=~"${who}"}`);
  const absent = ["one", "three"].map((who) => `absent(a{who="${who}"})`);
  const others = ["3 * a", "a + Inf", "a - -Inf", "a + NaN", "a offset 1s"];
  store.setQueries([...texts, ...absent, ...others]);
  store.addScrape(S, [
    sample("a", 1, { who: "one" }),
    sample("a", 2, { who: "two" }),
    sample("b", 10, { who: "one" }),
    sample("b", 20, { who: "two" }),
  ]);
  const resultOf = (text: string) => {
    const result = compiler.compile(text)(S, store);
    return result.kind === "vector" ? result.samples : [];
  };
  assert.deepEqual(
    texts.map((text) => resultOf(text).map(({ value }) => value)),
    [[12], [24]],
  );
  assert.equal(compiler.size, 1);
  assert.deepEqual(
    absent.map((text) => resultOf(text).map(({ labels }) => ({ ...labels }))),
    [[], [{ who: "three" }]],
  );
  for (const text of others) resultOf(text);
  assert.equal(compiler.size, 2 + others.length);
});

test("the local engine answers, or says why it cannot", async () => {
  const store = new SampleStore();
  const measure = new LocalQueryEngine(store);
  const { signal } = new AbortController();
  store.setQueries(["sum(a)", "a + on() b"]);
  store.addScrape(S, [
    sample("a", 2, { x: "1" }),
    sample("a", 3),
    sample("b", 1),
    sample("b", 1, { x: "1" }),
  ]);
  assert.deepEqual(await measure.query("1 + 1", S, signal), { kind: "scalar", value: 2 });
  assert.equal(numberOf(store, "sum(a)", S), 5);
  await assert.rejects(measure.query("a + on() b", S, signal), {
    code: "FAILED_PRECONDITION",
    message:
      'wanted one sample on the right for each match, got {__name__="b"} and {__name__="b", x="1"}',
  });
  await assert.rejects(measure.query("deriv(a[5m])", S, signal), {
    code: "INVALID_ARGUMENT",
    message: /deriv/,
  });
  await assert.rejects(measure.query("a", S, AbortSignal.abort()), { name: "AbortError" });
});

test("the cache of compiled queries is bounded", async () => {
  const measure = new LocalQueryEngine(new SampleStore());
  const { signal } = new AbortController();
  for (let count = 0; count < 5_000; count++) {
    const text = `${count}`;
    assert.deepEqual(await measure.query(text, S, signal), { kind: "scalar", value: count });
    assert.ok(measure.cached <= 4_096);
  }
  assert.deepEqual(await measure.query("1", S, signal), { kind: "scalar", value: 1 });
});

test("half of the room is divided among the queries: one of them cannot use up all of it", () => {
  const store = new SampleStore({ series: 40, samples: 4_000 });
  store.setQueries(["sum(a)", "sum(b)"]);
  const flood = Array.from({ length: 200 }, (_, x) => sample("a", 1, { x: String(x) }));
  store.addScrape(S, flood);
  assert.equal(store.series, 30, "its part and the common half");
  const others = Array.from({ length: 11 }, (_, x) => sample("b", 1, { x: String(x) }));
  store.addScrape(2 * S, [...flood, ...others]);
  assert.equal(store.series, 40);
  assert.equal(numberOf(store, "sum(b)", 2 * S), 10);
  store.addScrape(3 * S, []);
  store.addScrape(30 * S, []);
  store.addScrape(31 * S, others);
  assert.equal(numberOf(store, "sum(b)", 31 * S), 11, "what ended gives its room back");
});

test("the room for samples is divided in the same way", () => {
  const store = new SampleStore({ series: 40, samples: 64 });
  store.setQueries(["count_over_time(a[1h])", "count_over_time(b[1h])"]);
  for (let second = 1; second <= 100; second++) {
    const scrape = [sample("a", 1)];
    if (second > 50) scrape.push(sample("b", 1));
    store.addScrape(second * S, scrape);
  }
  assert.ok(store.capacity <= 64);
  const kept = numberOf(store, "count_over_time(b[1h])", 100 * S) ?? 0;
  assert.ok(kept >= 12, `${kept}`);
});

test("a query whose samples were lost has no result until its range is complete again; others have theirs", async () => {
  const store = new SampleStore({ series: 4, samples: 4_000 });
  const engine = new LocalQueryEngine(store);
  const { signal } = new AbortController();
  const [lossy, fine] = ["sum(max_over_time(a[1m]))", "sum(b)"];
  store.setQueries([lossy, fine]);
  const few = [sample("a", 1), sample("b", 7)];
  const flood = Array.from({ length: 9 }, (_, x) => sample("a", 1, { x: String(x) }));
  store.addScrape(S, few);
  assert.deepEqual(await engine.query(lossy, S, signal), {
    kind: "vector",
    samples: [{ labels: Object.create(null), value: 1 }],
  });
  store.addScrape(2 * S, [...few, ...flood]);
  for (let second = 3; second <= 80; second++) store.addScrape(second * S, few);
  for (const [at, lost] of [
    [2, true],
    [60, true],
    [72, true],
    [73, false],
  ] as const) {
    const asked = engine.query(lossy, at * S, signal);
    if (lost) await assert.rejects(asked, { code: "FAILED_PRECONDITION", message: /were lost/ });
    else await asked;
    assert.equal((await engine.query(fine, at * S, signal)).kind, "vector");
  }
  store.setQueries([lossy, fine, "c"]);
  await assert.rejects(
    engine.query(lossy, 60 * S, signal),
    /were lost/,
    "other queries change nothing",
  );
});
