// Running queries, with a clock and a query engine that the test controls.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Code, Fault } from "#base/fault.ts";
import type { QueryAnswer, QueryRequest } from "#circuit/component.ts";
import {
  QueryRunner,
  type QueryRunnerMetrics,
  type QueryRunnerSettings,
} from "#prometheus/query-runner.ts";
import type { QueryEngine, Result } from "#promql/result.ts";
import { fakeClock } from "../kit/clock.ts";

interface Call {
  readonly query: string;
  readonly at: number;
  readonly signal: AbortSignal;
  answer(result: Result | number): void;
  fail(code: Code, message?: string): void;
}

/** Answers when the test says so. Aborted calls stay open until the test ends them. */
function manualEngine() {
  const calls: Call[] = [];
  const engine: QueryEngine = {
    query: (query, at, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<Result>();
      calls.push({
        query,
        at,
        signal,
        answer: (result) =>
          resolve(typeof result === "number" ? { kind: "scalar", value: result } : result),
        fail: (code, message = "trouble") => reject(new Fault(code, message)),
      });
      return promise;
    },
  };
  return { calls, engine };
}

function set(settings: Partial<QueryRunnerSettings> = {}, chance = 0) {
  const clock = fakeClock();
  const { calls, engine } = manualEngine();
  const told: string[] = [];
  const meter: QueryRunnerMetrics = {
    ended: (owner, ending, ms) => told.push(`${owner} ${ending} ${ms}`),
    attempted: (ms) => told.push(`tried ${ms}`),
    retried: (owner) => told.push(`${owner} retried`),
  };
  const runner = new QueryRunner({
    engine,
    clock,
    chance: () => chance,
    metrics: meter,
    settings: { blocking_execution: false, worker_limit: 0, ...settings },
  });
  const heard: [string, QueryAnswer][] = [];
  /** `identity` is the component's id unless it is another one. */
  const ask = (
    owner: string,
    { identity, ...over }: Partial<QueryRequest & { identity: string }> = {},
  ) => {
    const whole = {
      componentId: "root.0",
      query: `${owner} query`,
      at: 0,
      periodMs: 1_000,
      byLabel: undefined,
      ...over,
    };
    const component = identity ?? whole.componentId;
    runner.ask(owner, component, whole, (answer) => heard.push([`${owner}/${component}`, answer]));
  };
  return { runner, ask, calls, clock, heard, told };
}

/** Lets all settled promises be delivered. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}

const value = (given: number): QueryAnswer => ({ kind: "value", value: given });

test("a query is sent with its time, and its answer is delivered", async () => {
  const { ask, calls, heard, told, clock } = set();
  ask("p", { query: "up", at: 12_000 });
  assert.equal(calls.length, 0, "not in the turn of the tick");
  await settled();
  assert.deepEqual([calls[0]?.query, calls[0]?.at], ["up", 12_000]);
  clock.advance(40);
  calls[0]?.answer(7);
  await settled();
  assert.deepEqual(heard, [["p/root.0", value(7)]]);
  assert.deepEqual(told, ["tried 40", "p answered 40"]);
  assert.equal(clock.alarms, 0);
});

test("results become answers: one number, or one for each value of a label", async () => {
  const { ask, calls, heard } = set();
  const vector = (...samples: (readonly [string, number])[]): Result => ({
    kind: "vector",
    samples: samples.map(([name, value]) => ({ labels: { l: name }, value })),
  });
  const answers = async (result: Result, byLabel?: string): Promise<QueryAnswer | undefined> => {
    ask("p", { byLabel, at: calls.length });
    await settled();
    calls.at(-1)?.answer(result);
    await settled();
    return heard.at(-1)?.[1];
  };
  assert.deepEqual(await answers(vector(["a", 3])), value(3));
  assert.deepEqual(await answers({ kind: "scalar", value: Number.NaN }), value(Number.NaN));
  for (const bad of [
    vector(),
    vector(["a", 1], ["b", 2]),
    { kind: "string", value: "x" },
    { kind: "matrix", series: 1 },
  ] as const) {
    assert.equal((await answers(bad))?.kind, "failed");
  }
  const by = await answers(vector(["a", 1], ["b", 2]), "l");
  assert.deepEqual(by, {
    kind: "by_label",
    values: new Map([
      ["a", 1],
      ["b", 2],
    ]),
  });
  assert.equal((await answers({ kind: "scalar", value: 1 }, "l"))?.kind, "failed");
});

test("a failure that is not transient is reported at once and not retried", async () => {
  const { ask, calls, heard, clock } = set();
  ask("p");
  await settled();
  calls[0]?.fail("INVALID_ARGUMENT", "no such function");
  await settled();
  assert.deepEqual(heard, [["p/root.0", { kind: "failed", why: "no such function" }]]);
  clock.advance(100_000);
  await settled();
  assert.equal(calls.length, 1);
});

test("a transient failure is retried with growing delays and the same time", async () => {
  const { ask, calls, heard, clock, told } = set();
  ask("p", { at: 5_000, periodMs: 10_000 });
  const gaps: number[] = [];
  for (let attempt = 1; attempt <= 4; attempt++) {
    await settled();
    assert.equal(calls.length, attempt);
    calls.at(-1)?.fail(attempt % 2 === 0 ? "UNAVAILABLE" : "DEADLINE_EXCEEDED");
    await settled();
    let waited = 0;
    while (calls.length === attempt) {
      clock.advance(25);
      waited += 25;
      await settled();
    }
    gaps.push(waited);
  }
  // Half of 250 ms, doubled each time; chance adds up to as much again.
  assert.deepEqual(gaps, [125, 250, 500, 1_000]);
  assert.deepEqual(new Set(calls.map(({ at }) => at)), new Set([5_000]));
  calls.at(-1)?.answer(1);
  await settled();
  assert.deepEqual(heard, [["p/root.0", value(1)]]);
  assert.equal(told.filter((line) => line === "p retried").length, 4);
});

test("there is no attempt for which no time is left", async () => {
  const { ask, calls, heard, clock } = set({}, 0.999);
  ask("p", { periodMs: 1_000 });
  await settled();
  clock.advance(800);
  calls[0]?.fail("UNAVAILABLE", "down");
  await settled();
  assert.deepEqual(heard, [["p/root.0", { kind: "failed", why: "down" }]]);
  assert.equal(clock.alarms, 0);
});

test("a query without an answer when the next evaluation is due is late", async () => {
  const { ask, calls, heard, clock, told } = set();
  ask("p", { periodMs: 2_000 });
  await settled();
  clock.advance(1_999);
  await settled();
  assert.equal(heard.length, 0);
  clock.advance(1);
  await settled();
  const why = "no answer before the next evaluation was due, after 2000 ms";
  assert.deepEqual(heard, [["p/root.0", { kind: "failed", why }]]);
  assert.equal(calls[0]?.signal.aborted, true);
  calls[0]?.answer(1);
  await settled();
  assert.equal(heard.length, 1, "too late is not heard");
  assert.ok(told.includes("p late 2000"));
});

test("the next query ends the previous one, outside of the tick, and is answered itself", async () => {
  const { runner, ask, calls, heard, clock } = set();
  ask("p", { at: 0 });
  await settled();
  clock.advance(990);
  ask("p", { at: 1_000 });
  assert.equal(heard.length, 0, "nothing is heard within the tick");
  assert.equal(runner.waiting, 1);
  await settled();
  const why = "no answer before the next evaluation was due, after 990 ms";
  assert.deepEqual(heard[0]?.[1], { kind: "failed", why });
  assert.equal(calls[0]?.signal.aborted, true);
  assert.equal(calls[1]?.signal.aborted, false);
  calls[1]?.answer(2);
  calls[0]?.answer(1);
  await settled();
  assert.deepEqual(heard.slice(1), [["p/root.0", value(2)]]);
});

test("the same query at the same time continues with the same call", async () => {
  const { ask, calls, heard, clock, told } = set();
  ask("p");
  await settled();
  clock.advance(900);
  ask("p");
  await settled();
  assert.deepEqual([calls.length, calls[0]?.signal.aborted], [1, false]);
  clock.advance(900);
  calls[0]?.answer(5);
  await settled();
  assert.deepEqual(heard, [["p/root.0", value(5)]]);
  assert.deepEqual(told, ["tried 1800", "p answered 900"]);
});

test("a component keeps its query when another component gets its id", async () => {
  const { runner, ask, calls, heard } = set();
  ask("p", { identity: "a", query: "one" });
  await settled();
  ask("p", { identity: "b", query: "two" });
  await settled();
  assert.deepEqual([runner.waiting, heard], [2, []]);
  calls[0]?.answer(1);
  calls[1]?.answer(2);
  await settled();
  assert.deepEqual(heard, [
    ["p/a", value(1)],
    ["p/b", value(2)],
  ]);
});

test("an early query for another time replaces the pending one silently, but not forever", async () => {
  const { runner, ask, calls, heard, clock } = set();
  ask("p", { at: 0 });
  await settled();
  clock.advance(300);
  ask("p", { at: 1_000 });
  await settled();
  assert.deepEqual([runner.waiting, heard], [1, []]);
  assert.deepEqual([calls[0]?.signal.aborted, calls[1]?.signal.aborted], [true, false]);
  // 600 ms since the component began to wait.
  clock.advance(300);
  ask("p", { at: 2_000 });
  await settled();
  assert.deepEqual(
    heard.map(([, { kind }]) => kind),
    ["failed"],
  );
  calls[2]?.answer(3);
  await settled();
  assert.deepEqual(heard[1], ["p/root.0", value(3)]);
  assert.equal(clock.alarms, 0);
});

test("equal queries of several policies share one call, aborted with the last of them", async () => {
  const { runner, ask, calls, heard, clock } = set();
  for (const owner of ["p", "q", "r"])
    ask(owner, { query: "up", periodMs: owner === "r" ? 500 : 1_000 });
  ask("s", { query: "up", at: 1 });
  await settled();
  assert.equal(calls.length, 2);
  clock.advance(500);
  runner.drop("p");
  assert.equal(calls[0]?.signal.aborted, false);
  calls[0]?.answer(3);
  await settled();
  assert.deepEqual(
    heard.map(([who, { kind }]) => `${who} ${kind}`),
    ["r/root.0 failed", "q/root.0 value"],
  );
  runner.drop("s");
  assert.equal(calls[1]?.signal.aborted, true);
});

test("a queued query stays queued for others when its first policy is dropped", async () => {
  const { runner, ask, calls, heard } = set({ blocking_execution: true });
  ask("p", { query: "first" });
  await settled();
  for (const owner of ["q", "r"]) ask(owner, { query: "second" });
  await settled();
  runner.drop("q");
  calls[0]?.answer(1);
  await settled();
  calls[1]?.answer(2);
  await settled();
  assert.deepEqual(
    heard.map(([who]) => who),
    ["p/root.0", "r/root.0"],
  );
});

test("one query that hangs delays no other", async () => {
  const { ask, calls, heard, clock } = set();
  for (let round = 0; round < 5; round++) {
    ask("p", { componentId: "dead", query: "dead", at: round });
    ask("p", { componentId: "good", query: "good", at: round });
    await settled();
    calls.findLast(({ query }) => query === "good")?.answer(round);
    await settled();
    clock.advance(1_000);
    await settled();
  }
  const of = (id: string) => heard.filter(([who]) => who === `p/${id}`).map(([, answer]) => answer);
  assert.deepEqual(of("good"), [0, 1, 2, 3, 4].map(value));
  assert.deepEqual(new Set(of("dead").map(({ kind }) => kind)), new Set(["failed"]));
  assert.equal(of("dead").length, 5);
});

test("worker_limit: so many at a time; blocking_execution: one", async () => {
  for (const [settings, most] of [
    [{ worker_limit: 3 }, 3],
    [{ worker_limit: 3, blocking_execution: true }, 1],
    [{}, 8],
  ] as const) {
    const { ask, calls } = set(settings);
    for (let at = 0; at < 8; at++) ask("p", { componentId: `${at}`, at });
    await settled();
    assert.equal(calls.length, most);
    for (let done = 0; done < 8; done++) {
      calls[done]?.answer(done);
      await settled();
      assert.equal(calls.length, Math.min(8, Math.max(most, done + 1 + most)));
    }
  }
});

test("a query that waits for its next attempt takes no worker", async () => {
  const { ask, calls, clock } = set({ blocking_execution: true });
  ask("p", { query: "down" });
  ask("q", { query: "fine" });
  await settled();
  calls[0]?.fail("UNAVAILABLE");
  await settled();
  assert.deepEqual(
    calls.map(({ query }) => query),
    ["down", "fine"],
  );
  clock.advance(200);
  await settled();
  assert.equal(calls.length, 2, "its turn comes when the worker is free");
  calls[1]?.answer(1);
  await settled();
  assert.deepEqual(
    calls.map(({ query }) => query),
    ["down", "fine", "down"],
  );
});

test("a policy whose queries hang does not starve another one", async () => {
  for (const settings of [{ worker_limit: 2 }, { blocking_execution: true }]) {
    const { ask, calls, heard, clock } = set(settings);
    let answered = 0;
    for (let second = 0; second < 60; second++) {
      if (second % 10 === 0) {
        for (let at = 0; at < 20; at++) {
          ask("slow", { componentId: `${at}`, query: `slow ${at}`, at: second, periodMs: 10_000 });
        }
      }
      ask("quick", { at: second });
      await settled();
      // An attempt that hangs ends by its timeout, as from a real client.
      if (second % 5 === 4) {
        for (const call of calls) if (call.query.startsWith("slow")) call.fail("DEADLINE_EXCEEDED");
        await settled();
      }
      const open = calls.findLast(
        ({ query, signal }) => query === "quick query" && !signal.aborted,
      );
      open?.answer(second);
      await settled();
      answered = heard.filter(
        ([who, { kind }]) => who === "quick/root.0" && kind === "value",
      ).length;
      clock.advance(1_000);
      await settled();
    }
    assert.ok(answered >= 10, `${JSON.stringify(settings)}: ${answered} of 60`);
  }
});

test("a policy whose queries hang takes no more than its share", async () => {
  const { ask, calls, heard } = set({ worker_limit: 4 });
  for (let at = 0; at < 20; at++) ask("slow", { componentId: `${at}`, query: `slow ${at}` });
  for (let at = 0; at < 6; at++) ask("quick", { componentId: `${at}`, query: `quick ${at}` });
  for (let done = 0; done < 6; done++) {
    await settled();
    calls.find(({ query }) => query === `quick ${done}`)?.answer(done);
    if (done < 4) assert.equal(calls.filter(({ query }) => query.startsWith("slow")).length, 2);
  }
  await settled();
  assert.equal(heard.length, 6);
  assert.equal(calls.length, 6 + 4);
});

test("drop: a policy gets no more answers, and its calls are aborted", async () => {
  const { runner, ask, calls, heard, clock } = set({ worker_limit: 1 });
  ask("p", { componentId: "a" });
  ask("p", { componentId: "b", at: 1 });
  ask("q");
  await settled();
  calls[0]?.answer(1);
  runner.drop("p");
  await settled();
  assert.deepEqual(heard, []);
  assert.deepEqual(
    calls.map(({ query }) => query),
    ["p query", "q query"],
  );
  assert.equal(runner.waiting, 1);
  // An answer that is on its way already.
  ask("p", { at: 2 });
  await settled();
  clock.advance(1_000);
  runner.drop("p");
  runner.drop("q");
  await settled();
  assert.deepEqual([heard, runner.waiting, clock.alarms], [[], 0, 0]);
});

test("close: all calls are aborted and no more queries are sent", async () => {
  const { runner, ask, calls, heard, clock } = set();
  ask("p");
  ask("q", { at: 3 });
  await settled();
  calls[1]?.fail("UNAVAILABLE");
  await settled();
  runner.close();
  assert.equal(clock.alarms, 0);
  ask("p", { at: 9 });
  calls[0]?.answer(1);
  await settled();
  clock.advance(10_000);
  await settled();
  assert.equal(calls[0]?.signal.aborted, true);
  assert.deepEqual([calls.length, heard, runner.waiting, clock.alarms], [2, [], 0, 0]);
});

test("in any sequence every query is answered once or replaced, and no worker or alarm leaks", async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("ask" as const), owner: fc.nat(2), id: fc.nat(2), at: fc.nat(1) }),
    fc.record({ do: fc.constant("answer" as const), call: fc.nat(30) }),
    fc.record({ do: fc.constant("fail" as const), call: fc.nat(30), passes: fc.boolean() }),
    fc.record({ do: fc.constant("advance" as const), ms: fc.integer({ min: 1, max: 700 }) }),
  );
  const run = fc.asyncProperty(
    fc.array(step, { maxLength: 60 }),
    fc.nat(3),
    async (steps, limit) => {
      const { ask, calls, heard, clock, runner, told } = set({ worker_limit: limit }, 0.5);
      let asked = 0;
      let taken = 0;
      for (const each of steps) {
        if (each.do === "ask") {
          asked += 1;
          const before = runner.waiting + heard.length;
          ask(`p${each.owner}`, { componentId: `${each.id}`, query: "x", at: each.at });
          await settled();
          taken += before + 1 - runner.waiting - heard.length;
        } else if (each.do === "answer") calls[each.call % (calls.length || 1)]?.answer(1);
        else if (each.do === "advance") clock.advance(each.ms);
        else calls[each.call % (calls.length || 1)]?.fail(each.passes ? "UNAVAILABLE" : "INTERNAL");
        await settled();
      }
      clock.advance(2_000);
      await settled();
      assert.deepEqual([heard.length + taken, runner.waiting, clock.alarms], [asked, 0, 0]);
      const ended = told.filter((line) => / (answered|failed|late) /.test(line));
      assert.equal(ended.length, heard.length);
      // All workers are free again.
      const before = calls.length;
      for (let id = 0; id < 5; id++) ask("new", { componentId: `${id}`, query: `new ${id}` });
      await settled();
      assert.equal(calls.length - before, limit === 0 ? 5 : limit);
    },
  );
  await fc.assert(run, { numRuns: 200 });
});
