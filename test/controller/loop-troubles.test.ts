// What a loop tells of its troubles: once when they begin, once when they are over, and never without end.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { Answer, Ask } from "#circuit/component.ts";
import { Loop } from "#controller/loop.ts";
import { showPolicy } from "#controller/policy-status.ts";
import { StatusNode } from "#host/status.ts";
import type { JsonObject } from "#policy/compiled.ts";
import { compileSet } from "#policy/set.ts";
import { CircuitMetrics } from "#telemetry/circuit-metrics.ts";
import { fakeClock } from "../kit/clock.ts";

const digest = (of: string) => createHash("sha256").update(of).digest("hex");

function versionOf(text: string, dynamicConfig?: JsonObject) {
  const set = compileSet([{ source: "p", stem: "p", text }], { digest, queries: "prometheus" });
  const [policy] = set.policies;
  assert.ok(policy, JSON.stringify(set.findings));
  return { policy: policy.of, dynamicConfig, origin: "file" } as const;
}

function loopOf(text: string, dynamicConfig?: JsonObject) {
  const clock = fakeClock();
  let answer: ((ask: Ask) => Answer) | undefined = () => ({ kind: "value", value: 7 });
  const told: string[] = [];
  let tickMs = 0;
  let spent = 0;
  const version = versionOf(text, dynamicConfig);
  const loop = new Loop(version, {
    clock: { ...clock, now: () => clock.now() + spent },
    outbox: { put: () => undefined },
    asker: {
      ask: (_owner, _identity, ask, hear) => {
        spent += tickMs;
        if (answer !== undefined) hear(answer(ask));
      },
      drop: () => undefined,
    },
    alerts: { fire: () => undefined },
    metrics: new CircuitMetrics(),
    info: (_, message) => void told.push(`info ${message}`),
    warn: (_, message) => void told.push(`warn ${message}`),
  });
  loop.load(version);
  const status = new StatusNode(clock);
  showPolicy(status, loop, () => clock.wall());
  return {
    ...{ loop, clock, told },
    trouble: () => status.find("key/p")?.trouble(),
    view: () => JSON.stringify(status.find("key/p")?.view()),
    answers: (way: typeof answer) => {
      answer = way;
    },
    takes: (ms: number) => {
      tickMs = ms;
    },
    told_since: () => told.splice(0),
  };
}

const limiter = (signal: string) => `    - flow_control:
        rate_limiter:
          selectors: [{ control_point: v, agent_group: default }]
          in_ports: { bucket_capacity: { signal_name: ${signal} }, fill_amount: { constant_signal: { value: 1 } } }
          parameters: { interval: 1s }
`;
const query = (signal: string, text: string) =>
  `    - query: { promql: { query_string: '${text}', evaluation_interval: 1s, out_ports: { output: { signal_name: ${signal} } } } }\n`;
const head = (interval = "1s") => `circuit:\n  evaluation_interval: ${interval}\n  components:\n`;
const LOOP = head() + query("CAP", `sum(${"u".repeat(200)})`) + limiter("CAP");

const AWAY: Answer = { kind: "failed", why: "the server is away" };

test("queries that begin to fail and limiters without numbers are told once, and once that it is over", () => {
  const { loop, clock, trouble, answers, told_since } = loopOf(LOOP);
  clock.advance(30_000);
  assert.deepEqual(told_since(), []);
  assert.equal(trouble(), undefined);
  answers(() => AWAY);
  clock.advance(60_000);
  const [failing, starved, ...more] = told_since();
  // The limiter's own query about what it does is asked every ten seconds.
  assert.match(more.shift() ?? "", /^warn queries of p fail: promql root\.1\.0/);
  assert.match(
    failing ?? "",
    /^warn queries of p fail: promql root\.0 \(sum\(u{96}…\): the server/,
  );
  assert.match(
    starved ?? "",
    /^warn limiters of p let everything pass .*: rate_limiter root\.1 \(invalid: bucket_capacity\)$/,
  );
  assert.deepEqual(more, []);
  assert.match(trouble() ?? "", /limiters let everything pass for want of numbers: rate_limiter/);
  answers(() => ({ kind: "value", value: 9 }));
  clock.advance(60_000);
  assert.deepEqual(told_since(), [
    "info queries of p are answered again: promql root.0",
    "info limiters of p have numbers again: rate_limiter root.1",
    "info queries of p are answered again: promql root.1.0",
  ]);
  assert.equal(trouble(), undefined);
  loop.stop();
});

test("at a start there is time for numbers to come; after it what is missing is told", () => {
  const { loop, clock, answers, told, told_since } = loopOf(LOOP);
  answers(() => AWAY);
  loop.load(versionOf(LOOP.replace("sum", "max")));
  clock.advance(9_000);
  assert.deepEqual(told, []);
  clock.advance(2_000);
  assert.equal(told_since().length, 2);
  // Another version of which these are part says nothing new of them.
  loop.load(versionOf(`${LOOP.replace("sum", "max")}${limiter("CAP")}`));
  clock.advance(9_000);
  assert.deepEqual(told, []);
  loop.stop();
});

test("a server that comes and goes fills no log, and many components are one line", () => {
  const many = Array.from(
    { length: 40 },
    (_, at) => query(`S${at}`, `up${at}`) + limiter(`S${at}`),
  );
  const { loop, clock, answers, told_since } = loopOf(head() + many.join(""));
  clock.advance(20_000);
  answers(() => AWAY);
  clock.advance(5_000);
  const first = told_since();
  assert.equal(first.length, 2);
  for (const line of first) {
    assert.match(line, /; and 35 more$/);
    assert.ok(line.length < 600, `${line.length}`);
  }
  for (let second = 0; second < 100; second++) {
    const away = second % 2 === 0;
    answers(() => (away ? AWAY : { kind: "value", value: 1 }));
    clock.advance(1_000);
  }
  assert.ok(told_since().length <= 22);
  loop.stop();
});

test("queries that find nothing yet have not failed; limiters without numbers are told all the same", () => {
  const { loop, clock, answers, told_since } = loopOf(LOOP);
  answers(() => ({ kind: "failed", why: "wanted one number, got a vector of 0", empty: true }));
  clock.advance(30_000);
  const told = told_since();
  assert.equal(told.length, 1);
  assert.match(told[0] ?? "", /let everything pass/);
  loop.stop();
});

test("a limiter that passes everything because it is told to is no trouble", () => {
  const text =
    head() +
    limiter("CAP").replace(
      "in_ports: {",
      "in_ports: { pass_through: { constant_signal: { value: 1 } },",
    );
  const own =
    "    - variable: { constant_output: { value: 5 }, out_ports: { output: { signal_name: CAP } } }\n";
  const { loop, clock, told, trouble } = loopOf(text + own);
  clock.advance(30_000);
  assert.deepEqual(told, []);
  assert.equal(trouble(), undefined);
  loop.stop();
});

test("a load scheduler is judged by what it said last", () => {
  const text = `${head()}${query("LOAD", "up")}    - flow_control:
        load_scheduler:
          in_ports: { load_multiplier: { signal_name: LOAD } }
          parameters: { selectors: [{ control_point: l, agent_group: default }] }
`;
  const { loop, clock, told_since, answers, trouble } = loopOf(text);
  clock.advance(15_000);
  answers(() => AWAY);
  clock.advance(2_000);
  assert.doesNotMatch(told_since().join(), /let everything pass/);
  assert.equal(trouble(), undefined);
  clock.advance(5_000);
  assert.match(
    told_since().join(),
    /let everything pass.*load_scheduler root\.1\.\d+|load_scheduler root\.1 /,
  );
  assert.match(trouble() ?? "", /invalid: load_multiplier/);
  loop.stop();
});

test("a policy whose ticks are too long for its interval says so once and gets a tenth of the time", () => {
  const { loop, clock, told_since, takes } = loopOf(
    head("0.001s") + query("CAP", "up").replace("1s", "0.001s"),
  );
  takes(4);
  clock.advance(20_000);
  const told = told_since();
  assert.equal(told.length, 1);
  assert.match(
    told[0] ?? "",
    /^warn the policy cannot keep its evaluation interval of 1 ms: a tick takes 4 ms/,
  );
  const ticks = loop.last?.number ?? 0;
  assert.ok(ticks > 400 && ticks < 620, `${ticks} ticks`);
  assert.ok(loop.skipped > 15_000, `${loop.skipped} skipped`);
  takes(0);
  clock.advance(1_000);
  assert.deepEqual(told_since(), ["info the policy keeps its evaluation interval again"]);
  loop.stop();
});

const CAPPED = `${head()}    - variable: { constant_output: { value: 3 }, config_key: cap, out_ports: { output: { signal_name: CAP } } }
${limiter("CAP")}`;

function capacity(loop: Loop): number | undefined {
  const [decision] = loop.decisions;
  return decision?.kind === "rate_limiter" ? decision.bucketCapacity : undefined;
}

test("a dynamic configuration with a value of another form is set aside whole: the last good one stays", () => {
  const { loop, clock, told_since, view } = loopOf(CAPPED, { cap: { value: 11 } });
  assert.equal(capacity(loop), 11);
  for (let again = 0; again < 3; again++) {
    const entries = loop.configure({ cap: 12 });
    assert.match(
      String([...entries.values()].map((bytes) => new TextDecoder().decode(bytes))),
      /11/,
    );
    clock.advance(1_000);
  }
  assert.equal(capacity(loop), 11);
  const said = told_since();
  assert.equal(said.length, 1);
  assert.match(
    said[0] ?? "",
    /cap was set aside: wanted \{value: number\}.*, got 12; what was in force/,
  );
  assert.match(view(), /"dynamic_config_set_aside":\{"cap":"wanted \{value: number\}.* got 12"\}/);
  loop.load(versionOf(`${CAPPED}${limiter("CAP")}`, { cap: 12 }));
  assert.equal(capacity(loop), 11, "over a change too");
  loop.configure({ cap: { value: 13 }, other: 5 });
  clock.advance(1_000);
  assert.equal(capacity(loop), 13);
  assert.equal(loop.setAside.size, 0);
  loop.configure(undefined);
  clock.advance(1_000);
  assert.equal(capacity(loop), 3);
  loop.stop();
});

test("at the first load the policy's own values hold in place of a configuration at fault", () => {
  const { loop, told } = loopOf(CAPPED, { cap: "much" });
  assert.equal(capacity(loop), 3);
  assert.equal(loop.version.dynamicConfig, undefined);
  assert.match(told.join(), /got "much"; what the policy says itself holds/);
  loop.stop();
});
