// The log lines about the conditions of a running policy: each once when it begins and once when it ends.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { QueryAnswer, QueryRequest } from "#circuit/component.ts";
import { PolicyLoop } from "#controller/loop/policy-loop.ts";
import { Schedule } from "#controller/loop/ticker.ts";
import { showPolicies } from "#controller/policies/policy-status.ts";
import type { JsonObject } from "#policy/compiled.ts";
import { compileSet } from "#policy/set.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { fakeClock } from "../../kit/clock.ts";
import { logTo } from "../../kit/sluice/log.ts";

const digest = (of: string) => createHash("sha256").update(of).digest("hex");

function versionOf(text: string, dynamicConfig?: JsonObject) {
  const set = compileSet([{ source: "p", defaultName: "p", text }], {
    digest,
    queries: "prometheus",
  });
  const [policy] = set.policies;
  assert.ok(policy, JSON.stringify(set.findings));
  return { policy: policy, dynamicConfig, origin: "file" } as const;
}

function loopOf(text: string, dynamicConfig?: JsonObject) {
  const clock = fakeClock();
  let answer: ((ask: QueryRequest) => QueryAnswer) | undefined = () => ({
    kind: "value",
    value: 7,
  });
  const logged: string[] = [];
  let tickMs = 0;
  let spent = 0;
  const version = versionOf(text, dynamicConfig);
  const late: Clock = { ...clock, now: () => clock.now() + spent };
  const loop = new PolicyLoop(version, {
    clock: late,
    schedule: new Schedule(late),
    outbox: { put: () => undefined },
    queries: {
      ask: (_owner, _identity, ask, hear) => {
        spent += tickMs;
        if (answer !== undefined) hear(answer(ask));
      },
      drop: () => undefined,
    },
    alerts: { fire: () => undefined },
    metrics: new CircuitMetrics(),
    log: logTo((level, _, message) => void logged.push(`${level} ${message}`)),
  });
  loop.load(version);
  loop.startTicks();
  const status = new StatusNode(clock);
  showPolicies(status, {
    loops: () => new Map([["p", loop]]),
    warnings: () => [...loop.diagnosis.warnings()],
    wall: () => clock.wall(),
  });
  return {
    loop,
    clock,
    logged,
    trouble: () => status.find("key/p")?.firstError(),
    view: () => JSON.stringify(status.find("key/p")?.view()),
    answers: (way: typeof answer) => {
      answer = way;
    },
    takes: (ms: number) => {
      tickMs = ms;
    },
    takeLogged: () => logged.splice(0),
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

const AWAY: QueryAnswer = { kind: "failed", why: "the server is away" };

test("failing queries and limiters that fail open are logged once when it begins and once when it ends", () => {
  const { loop, clock, trouble, answers, takeLogged } = loopOf(LOOP);
  clock.advance(30_000);
  assert.deepEqual(takeLogged(), []);
  assert.equal(trouble(), undefined);
  answers(() => AWAY);
  clock.advance(60_000);
  const [failing, starved, ...more] = takeLogged();
  // The limiter's own query, for its accept percentage, is asked every ten seconds.
  assert.match(more.shift() ?? "", /^warn queries of p fail: promql root\.1\.0/);
  assert.match(
    failing ?? "",
    /^warn queries of p fail: promql root\.0 \(sum\(u{96}…\): the server/,
  );
  assert.match(
    starved ?? "",
    /^warn limiters of p fail open: required signals are invalid: rate_limiter root\.1 \(invalid: bucket_capacity\)$/,
  );
  assert.deepEqual(more, []);
  assert.match(trouble() ?? "", /limiters fail open, required signals are invalid: rate_limiter/);
  answers(() => ({ kind: "value", value: 9 }));
  clock.advance(60_000);
  assert.deepEqual(takeLogged(), [
    "info queries of p are answered again: promql root.0",
    "info limiters of p have valid signals again: rate_limiter root.1",
    "info queries of p are answered again: promql root.1.0",
  ]);
  assert.equal(trouble(), undefined);
  loop.stop();
});

test("nothing is logged in the first ten seconds after a start; later, what is still missing is", () => {
  const { loop, clock, answers, logged, takeLogged } = loopOf(LOOP);
  answers(() => AWAY);
  loop.load(versionOf(LOOP.replace("sum", "max")));
  loop.startTicks();
  clock.advance(9_000);
  assert.deepEqual(logged, []);
  clock.advance(2_000);
  assert.equal(takeLogged().length, 2);
  // A new version with the same components logs nothing new about them.
  loop.load(versionOf(`${LOOP.replace("sum", "max")}${limiter("CAP")}`));
  loop.startTicks();
  clock.advance(9_000);
  assert.deepEqual(logged, []);
  loop.stop();
});

test("a limiter that refuses everything for want of a signal has as long to get it", () => {
  const text = LOOP.replace("{ interval: 1s }", "{ interval: 1s, on_failure: closed }");
  const { loop, clock, answers, takeLogged } = loopOf(text);
  answers(() => AWAY);
  loop.load(versionOf(text.replace("sum", "max")));
  loop.startTicks();
  const standIns = () => takeLogged().filter((line) => line.includes("decide by on_failure"));
  clock.advance(9_000);
  assert.deepEqual(standIns(), []);
  clock.advance(6_000);
  assert.equal(standIns().length, 1);
  loop.stop();
});

test("a flapping server does not flood the log, and many components share one line", () => {
  const many = Array.from(
    { length: 40 },
    (_, at) => query(`S${at}`, `up${at}`) + limiter(`S${at}`),
  );
  const { loop, clock, answers, takeLogged } = loopOf(head() + many.join(""));
  clock.advance(20_000);
  answers(() => AWAY);
  clock.advance(5_000);
  const first = takeLogged();
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
  assert.ok(takeLogged().length <= 22);
  loop.stop();
});

test("queries without a result yet have not failed, but limiters that fail open are logged", () => {
  const { loop, clock, answers, takeLogged } = loopOf(LOOP);
  answers(() => ({ kind: "failed", why: "wanted one number, got a vector of 0", empty: true }));
  clock.advance(30_000);
  const logged = takeLogged();
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /fail open/);
  loop.stop();
});

test("a limiter that is set to accept everything is not reported", () => {
  const text =
    head() +
    limiter("CAP").replace(
      "in_ports: {",
      "in_ports: { pass_through: { constant_signal: { value: 1 } },",
    );
  const own =
    "    - variable: { constant_output: { value: 5 }, out_ports: { output: { signal_name: CAP } } }\n";
  const { loop, clock, logged, trouble } = loopOf(text + own);
  clock.advance(30_000);
  assert.deepEqual(logged, []);
  assert.equal(trouble(), undefined);
  loop.stop();
});

test("a load scheduler is judged by its last decision", () => {
  const text = `${head()}${query("LOAD", "up")}    - flow_control:
        load_scheduler:
          in_ports: { load_multiplier: { signal_name: LOAD } }
          parameters: { selectors: [{ control_point: l, agent_group: default }] }
`;
  const { loop, clock, takeLogged, answers, trouble } = loopOf(text);
  clock.advance(15_000);
  answers(() => AWAY);
  clock.advance(2_000);
  assert.doesNotMatch(takeLogged().join(), /fail open/);
  assert.equal(trouble(), undefined);
  clock.advance(5_000);
  assert.match(
    takeLogged().join(),
    /fail open.*load_scheduler root\.1\.\d+|load_scheduler root\.1 /,
  );
  assert.match(trouble() ?? "", /invalid: load_multiplier/);
  loop.stop();
});

test("a policy whose ticks are too long for its interval is logged once and gets a tenth of the time", () => {
  const { loop, clock, takeLogged, takes } = loopOf(
    head("0.001s") + query("CAP", "up").replace("1s", "0.001s"),
  );
  takes(4);
  clock.advance(20_000);
  const logged = takeLogged();
  assert.equal(logged.length, 1);
  assert.match(
    logged[0] ?? "",
    /^warn the policy cannot keep its evaluation interval of 1 ms: a tick takes 4 ms/,
  );
  const ticks = loop.lastTick?.number ?? 0;
  assert.ok(ticks > 400 && ticks < 620, `${ticks} ticks`);
  assert.ok(loop.skipped > 15_000, `${loop.skipped} skipped`);
  takes(0);
  clock.advance(1_000);
  assert.deepEqual(takeLogged(), ["info the policy keeps its evaluation interval again"]);
  loop.stop();
});

const CAPPED = `${head()}    - variable: { constant_output: { value: 3 }, config_key: cap, out_ports: { output: { signal_name: CAP } } }
${limiter("CAP")}`;

function capacity(loop: PolicyLoop): number | undefined {
  const [decision] = loop.decisions;
  return decision?.kind === "rate_limiter" ? decision.bucketCapacity : undefined;
}

test("a dynamic configuration with a value of the wrong form is refused whole, and the last good one stays", () => {
  const { loop, clock, takeLogged, view } = loopOf(CAPPED, { cap: { value: 11 } });
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
  const said = takeLogged();
  assert.equal(said.length, 1);
  assert.match(
    said[0] ?? "",
    /was refused, the one before stays in force: cap: wanted \{value: number\}.*, got 12$/,
  );
  assert.match(view(), /"dynamic_config_set_aside":\{"cap":"wanted \{value: number\}.* got 12"\}/);
  loop.load(versionOf(`${CAPPED}${limiter("CAP")}`, { cap: 12 }));
  loop.startTicks();
  assert.equal(capacity(loop), 11, "over a change too");
  loop.configure({ cap: { value: 13 }, other: 5 });
  clock.advance(1_000);
  assert.equal(capacity(loop), 13);
  assert.equal(loop.refusedConfig.size, 0);
  loop.configure(undefined);
  clock.advance(1_000);
  assert.equal(capacity(loop), 3);
  loop.stop();
});

test("when the first configuration is refused, the policy's own values are in force", () => {
  const { loop, logged } = loopOf(CAPPED, { cap: "much" });
  assert.equal(capacity(loop), 3);
  assert.equal(loop.version.dynamicConfig, undefined);
  assert.match(logged.join(), /refused, the policy's own values are in force: cap: .*got "much"/);
  loop.stop();
});
