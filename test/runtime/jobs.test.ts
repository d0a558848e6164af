import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import { JobGroup, type JobGroupSettings, type JobSettings } from "#runtime/life/jobs.ts";
import { Health } from "#runtime/status/health.ts";
import { StatusNode } from "#runtime/status/status.ts";
import { fakeClock } from "../kit/clock.ts";

const EVERY_10_S: JobSettings = {
  execution_period: 10_000,
  execution_timeout: 5_000,
  initially_healthy: false,
};
const FREE: JobGroupSettings = { blocking_execution: false, worker_limit: 0 };

function group(settings: Partial<JobGroupSettings> = {}) {
  const clock = fakeClock();
  const status = new StatusNode(clock);
  const jobs = new JobGroup({ ...FREE, ...settings }, clock, status);
  const messageOf = (name: string) => {
    const view = status.find(`executor/${name}`)?.view().status;
    return view?.error?.message ?? view?.message?.value;
  };
  return { clock, status, jobs, messageOf };
}

test("a job runs at once and then once per period; its message is its status", async () => {
  const { clock, jobs, messageOf } = group();
  let runs = 0;
  jobs.add({ name: "x", settings: EVERY_10_S, run: () => `run ${++runs}` });
  assert.equal(messageOf("x"), "not run yet");
  await turn();
  assert.equal(messageOf("x"), "run 1");
  clock.advance(9_999);
  await turn();
  assert.equal(runs, 1);
  clock.advance(1);
  await turn();
  assert.equal(messageOf("x"), "run 2");
  jobs.close();
  clock.advance(60_000);
  await turn();
  assert.deepEqual([runs, clock.alarms], [2, 0]);
});

test("an error of a job is the error of its node until a run succeeds", async () => {
  const { clock, jobs, status, messageOf } = group();
  let broken = true;
  const run = () => {
    if (broken) throw new Fault("UNAVAILABLE", "no route to the store");
    return "OK";
  };
  jobs.add({ name: "x", settings: EVERY_10_S, run });
  await turn();
  assert.equal(status.firstError(), "executor:x: no route to the store");
  broken = false;
  clock.advance(10_000);
  await turn();
  assert.deepEqual([status.firstError(), messageOf("x")], [undefined, "OK"]);
  jobs.close();
});

test("an error that is no Fault reveals nothing in the status", async () => {
  const { jobs, messageOf } = group();
  const run = () => Promise.reject(new Error("password=hunter2"));
  jobs.add({ name: "x", settings: EVERY_10_S, run });
  await turn();
  assert.equal(messageOf("x"), "internal error");
  jobs.close();
});

for (const execution_period of [0, -1]) {
  test(`a period of ${execution_period} never runs, sets no alarm and reports no error`, async () => {
    const { clock, jobs, status } = group();
    let runs = 0;
    const settings = { ...EVERY_10_S, execution_period };
    jobs.add({ name: "x", settings, run: () => `${++runs}` });
    clock.advance(100_000);
    await turn();
    assert.deepEqual([runs, clock.alarms, status.firstError()], [0, 0, undefined]);
  });
}

test("initially healthy: no error before the first run", () => {
  const { jobs, status } = group();
  const settings = { ...EVERY_10_S, initially_healthy: true };
  jobs.add({ name: "x", settings, run: () => new Promise(() => undefined) });
  assert.equal(status.firstError(), undefined);
  jobs.close();
});

test("a job that exceeds its time limit is aborted, shows it, and does not run twice at once", async () => {
  const { clock, jobs, messageOf } = group();
  let runs = 0;
  let free: (message: string) => void = () => undefined;
  const signals: AbortSignal[] = [];
  const run = (signal: AbortSignal) => {
    runs++;
    signals.push(signal);
    return new Promise<string>((resolve) => {
      free = resolve;
    });
  };
  jobs.add({ name: "x", settings: EVERY_10_S, run });
  clock.advance(4_999);
  assert.equal(signals[0]?.aborted, false);
  clock.advance(1);
  assert.deepEqual([signals[0]?.aborted, messageOf("x")], [true, "did not end within 5000 ms"]);
  clock.advance(20_000);
  await turn();
  assert.equal(runs, 1);
  free("finally");
  await turn();
  assert.equal(messageOf("x"), "did not end within 5000 ms");
  clock.advance(5_000);
  free("OK");
  await turn();
  assert.deepEqual([runs, messageOf("x")], [2, "OK"]);
  jobs.close();
});

test("without a timeout a job may take any time", async () => {
  const { clock, jobs, messageOf } = group();
  const done = Promise.withResolvers<string>();
  const settings = { ...EVERY_10_S, execution_timeout: 0, execution_period: 1_000_000 };
  jobs.add({ name: "x", settings, run: () => done.promise });
  clock.advance(900_000);
  done.resolve("slow");
  await turn();
  assert.equal(messageOf("x"), "slow");
  jobs.close();
});

async function mostAtOnce(settings: Partial<JobGroupSettings>): Promise<readonly number[]> {
  const { jobs } = group(settings);
  let running = 0;
  let most = 0;
  let ended = 0;
  const run = async () => {
    most = Math.max(most, ++running);
    await turn();
    running--;
    ended++;
    return "OK";
  };
  for (const name of ["a", "b", "c", "d", "e"]) jobs.add({ name, settings: EVERY_10_S, run });
  for (let wait = 0; wait < 20; wait++) await turn();
  jobs.close();
  return [most, ended];
}

test("blocking execution runs one job at a time, a worker limit that many, otherwise all run at once", async () => {
  assert.deepEqual(await mostAtOnce({ blocking_execution: true, worker_limit: 3 }), [1, 5]);
  assert.deepEqual(await mostAtOnce({ worker_limit: 2 }), [2, 5]);
  assert.deepEqual(await mostAtOnce({}), [5, 5]);
});

test("a stopped job is aborted, loses its node and reports nothing more", async () => {
  const { clock, jobs, status } = group();
  const done = Promise.withResolvers<string>();
  let heard: AbortSignal | undefined;
  const remove = jobs.add({
    name: "x",
    settings: EVERY_10_S,
    run: (signal) => {
      heard = signal;
      return done.promise;
    },
  });
  assert.throws(() => jobs.add({ name: "x", settings: EVERY_10_S, run: () => "" }), Fault);
  remove();
  assert.equal(heard?.aborted, true);
  done.resolve("late");
  await turn();
  assert.deepEqual(status.view().groups, {});
  clock.advance(5_000);
  jobs.add({ name: "x", settings: EVERY_10_S, run: () => "again" });
  remove();
  await turn();
  assert.equal(status.find("executor/x")?.view().status?.message?.value, "again");
  jobs.close();
  assert.equal(clock.alarms, 0);
});

test("readiness follows the platform and its components; liveness does not", async () => {
  const clock = fakeClock();
  const settings = { scheduler: FREE, service: EVERY_10_S };
  const health = new Health(clock, { liveness: settings, readiness: settings });
  const trouble = (name: string) => health.root.find(`system/${name}`)?.firstError();
  await turn();
  assert.match(trouble("readiness") ?? "", /platform starting/);
  assert.equal(trouble("liveness"), undefined);
  health.enter("running");
  assert.equal(trouble("readiness"), undefined);
  const policies = health.dependency("policies");
  assert.match(trouble("readiness") ?? "", /policies is not ready yet/);
  policies.ok("2 loaded");
  assert.equal(trouble("readiness"), undefined);
  health.readiness.check("store", () => {
    throw new Fault("UNAVAILABLE", "away");
  });
  await turn();
  assert.match(trouble("readiness") ?? "", /executor:store: away/);
  assert.equal(trouble("liveness"), undefined);
  health.enter("stopping");
  assert.equal(health.phase, "stopping");
  assert.match(trouble("readiness") ?? "", /platform stopping|store/);
  await health.close("drain");
  assert.equal(clock.alarms, 0);
});
