// A single policy loop: a component that fails, slow answers, and answers that arrive after a change.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { Log } from "#base/log.ts";
import type { QueryAnswer, QueryRequest } from "#circuit/component.ts";
import { PolicyLoop } from "#controller/loop/policy-loop.ts";
import { Schedule } from "#controller/loop/ticker.ts";
import { compileSet } from "#policy/set.ts";
import { QueryRunner } from "#prometheus/query-runner.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { type FakeClock, fakeClock } from "../../kit/clock.ts";
import { logTo, memoryLog } from "../../kit/sluice/log.ts";

function versionOf(text: string) {
  const digest = (of: string) => createHash("sha256").update(of).digest("hex");
  const set = compileSet([{ source: "p", defaultName: "p", text }], {
    digest,
    queries: "prometheus",
  });
  const [policy] = set.policies;
  assert.ok(policy, JSON.stringify(set.findings));
  return { policy: policy, dynamicConfig: undefined, origin: "file" } as const;
}

interface Around {
  readonly clock?: FakeClock;
  readonly asker?: Pick<QueryRunner, "ask" | "drop">;
  readonly log?: Log;
}

function loopOf(text: string, { clock = fakeClock(), asker, log }: Around = {}) {
  const asked: { readonly ask: QueryRequest; readonly hear: (answer: QueryAnswer) => void }[] = [];
  const logged: string[] = [];
  const version = versionOf(text);
  const loop = new PolicyLoop(version, {
    clock,
    schedule: new Schedule(clock),
    outbox: { put: () => undefined },
    queries: asker ?? {
      ask: (_owner, _identity, ask, hear) => void asked.push({ ask, hear }),
      drop: () => undefined,
    },
    alerts: {
      fire() {
        throw new Error("no way out");
      },
    },
    metrics: new CircuitMetrics(),
    log: log ?? logTo((_level, _fields, message) => void logged.push(message)),
  });
  loop.load(version);
  loop.startTicks();
  const reading = (name: string) => {
    const at = loop.circuit?.plan.signals.findIndex((signal) => signal.name === name) ?? -1;
    return loop.circuit?.reading(at);
  };
  return { loop, clock, asked, logged, reading };
}

const query = (name: string, text: string, every = "1s") =>
  `    - query: { promql: { query_string: ${text}, evaluation_interval: ${every}, out_ports: { output: { signal_name: ${name} } } } }\n`;
const HEAD = "circuit:\n  evaluation_interval: 1s\n  components:\n";
const COUNT = `    - integrator:
        in_ports: { input: { constant_signal: { value: 1 } } }
        out_ports: { output: { signal_name: SUM } }
`;

test("a component that throws is counted by name, logged once, and stops no other component", () => {
  const alerter =
    "    - alerter: { in_ports: { signal: { constant_signal: { value: 1 } } }, parameters: { alert_name: a } }\n";
  const { loop, clock, logged, reading } = loopOf(HEAD + alerter + COUNT);
  clock.advance(4_000);
  const fault = loop.diagnosis.faults.get("root.0");
  assert.deepEqual({ ...fault }, { kind: "alerter", count: 5, tick: 5, message: "internal error" });
  assert.equal(logged.length, 1);
  assert.equal(reading("SUM"), 4);
  loop.stop();
});

test("a missing answer delays nothing, and an answer is seen in the next tick", () => {
  const { loop, clock, asked, reading } = loopOf(HEAD + query("A", "up") + COUNT);
  clock.advance(3_000);
  assert.equal(reading("SUM"), 3);
  assert.equal(asked.length, 4);
  asked[0]?.hear({ kind: "value", value: 42 });
  assert.ok(Number.isNaN(reading("A")));
  clock.advance(1_000);
  assert.equal(reading("A"), 42);
  asked[1]?.hear({ kind: "failed", why: "the server is away" });
  clock.advance(1_000);
  assert.deepEqual(
    [...loop.diagnosis.invalidSignals()].map(({ name, why }) => [name, why]),
    [["A", "query of root.0: the server is away"]],
  );
  loop.stop();
});

test("at trace each tick and each answer to a query is one line, a decision that changes one at debug", () => {
  const limiter = `    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports: { bucket_capacity: { signal_name: A }, fill_amount: { constant_signal: { value: 1 } } }
          parameters: { interval: 1s }
`;
  const log = memoryLog("trace");
  const { loop, clock, asked } = loopOf(HEAD + query("A", "up") + limiter, { log });
  const { name: policy, hash } = loop.version.policy;
  const told = () =>
    log.lines.splice(0).map(({ level, message, fields: { before, after, ...fields } }) => {
      assert.equal(fields["policy"], policy);
      if (message !== "a query was answered") assert.equal(fields["hash"], hash);
      const capacity = (numbers: unknown) => Object(numbers).bucketCapacity;
      const change = message === "a decision changed" ? [capacity(before), capacity(after)] : [];
      return [level, message, ...change].join(" ");
    });
  assert.equal(told()[0], "debug a version of the policy comes into force");
  asked[0]?.hear({ kind: "value", value: 5 });
  assert.deepEqual(told(), ["trace a query was answered"]);
  clock.advance(1_000);
  assert.deepEqual(told(), ["debug a decision changed 0 5", "trace tick"]);
  clock.advance(1_000);
  assert.deepEqual(told(), ["trace tick"]);
  loop.unload();
  assert.equal(log.lines[0]?.message, "the policy ends");
});

test("the answer to a query from before a change reaches the component at its new place", () => {
  const { loop, clock, asked, reading } = loopOf(HEAD + query("A", "up") + query("B", "down"));
  const [first] = asked;
  loop.load(versionOf(HEAD + query("B", "down") + query("A", "up")));
  loop.startTicks();
  first?.hear({ kind: "value", value: 7 });
  clock.advance(1_000);
  assert.equal(reading("A"), 7);
  assert.ok(Number.isNaN(reading("B")));
  loop.stop();
  assert.equal(clock.alarms, 0);
});

/** A query runner whose calls wait until they are answered: `up` with a value, others with its negative. */
function askerOf(clock: FakeClock) {
  const calls: { readonly query: string; readonly answer: (value: number) => void }[] = [];
  const asker = new QueryRunner({
    engine: {
      query: (text) =>
        new Promise((resolve) => {
          calls.push({ query: text, answer: (value) => resolve({ kind: "scalar", value }) });
        }),
    },
    clock,
    chance: () => 0,
    settings: { blocking_execution: false, worker_limit: 0 },
  });
  const answered = async (value: number) => {
    await settled();
    for (const { query, answer } of calls.splice(0)) answer(query === "up" ? value : -value);
    await settled();
  };
  return { asker, answered };
}

test("a query in flight is answered although another component now has the id of the one that asked", async () => {
  const clock = fakeClock();
  const { asker, answered } = askerOf(clock);
  const text = HEAD + query("A", "up", "4s") + query("B", "down");
  const { loop, reading } = loopOf(text, { clock, asker });
  // The fourth tick asks for A, and the first of the new version for B alone.
  clock.advance(3_000);
  await settled();
  loop.load(versionOf(HEAD + query("B", "down") + query("A", "up", "4s")));
  loop.startTicks();
  await answered(1);
  clock.advance(1_000);
  assert.deepEqual([reading("A"), reading("B")], [1, -1]);
  loop.stop();
  asker.close();
});

test("a new version that repeats a query early does not invalidate its signal", async () => {
  const clock = fakeClock();
  const { asker, answered } = askerOf(clock);
  const one = HEAD + query("A", "up") + query("B", "down");
  const { loop, reading } = loopOf(one, { clock, asker });
  await answered(1);
  clock.advance(1_000);
  assert.deepEqual([reading("A"), reading("B")], [1, -1]);
  clock.advance(300);
  // Both are in flight when the new version's first tick asks again.
  loop.load(versionOf(HEAD + query("B", "down") + query("A", "up")));
  loop.startTicks();
  await settled();
  assert.deepEqual([reading("A"), reading("B")], [1, -1]);
  clock.advance(300);
  loop.load(versionOf(one));
  loop.startTicks();
  await settled();
  await answered(2);
  loop.load(versionOf(`${one}${COUNT}`));
  loop.startTicks();
  assert.deepEqual([reading("A"), reading("B"), [...loop.diagnosis.invalidSignals()]], [2, -2, []]);
  loop.stop();
  asker.close();
});

/** Lets all settled promises call their handlers. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
