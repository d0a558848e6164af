// Liveness and readiness as probes see them: what each key changes in the answers of the status routes and of gRPC
// health, in both processes.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { fakeClock } from "../kit/clock.ts";
import { type ProcessOnOptions, processOn } from "../kit/process.ts";
import { call } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";

const BRANCHES = ["liveness", "readiness"] as const;
const PROCESSES = ["agent", "controller"] as const;

async function probed(
  t: TestContext,
  options: ProcessOnOptions & { readonly name?: (typeof PROCESSES)[number] } = {},
) {
  const started = await processOn(t, options.name ?? "agent", options);
  const client = grpcClient(t, started.address);
  const status = async (path: string) => {
    const reply = await call(started.address, "GET", `/v1/status/system/${path}`);
    return { code: reply.status, text: reply.body };
  };
  const serving = async () => {
    const reply = await client.unary("/grpc.health.v1.Health/Check", new Uint8Array());
    return reply.message?.[1] === 1;
  };
  const isReady = async (branch: string) => (await status(branch)).code === 200;
  await until("the port was checked", async () =>
    (await status("readiness")).text.includes("accepts connections"),
  );
  return { ...started, status, serving, isReady };
}

/** A check whose runs end when the test says so. */
function heldCheck() {
  const runs: PromiseWithResolvers<string>[] = [];
  const run = () => {
    const held = Promise.withResolvers<string>();
    runs.push(held);
    return held.promise;
  };
  return { runs, run };
}

for (const name of PROCESSES)
  for (const branch of BRANCHES) {
    const key = branch.toUpperCase();

    test(`${name}: a check of ${branch} that fails makes it 503 and gRPC health NOT_SERVING until a run succeeds`, async (t) => {
      let fails = true;
      const { process, clock, status, serving, isReady } = await probed(t, { name });
      assert.equal(await serving(), true);
      process.health[branch].check("disk", () => {
        if (fails) throw new Fault("UNAVAILABLE", "the disk is full");
        return "the disk has room";
      });
      await until("the check has run", async () => !(await isReady(branch)));
      assert.match((await status(branch)).text, /the disk is full/);
      assert.equal(await serving(), false);
      const other = branch === "liveness" ? "readiness" : "liveness";
      assert.equal(await isReady(other), true, `${other} is another question`);
      fails = false;
      clock.advance(9_999);
      await turn();
      assert.equal(await isReady(branch), false, "not before its period has passed");
      clock.advance(1);
      await until("the check has run again", () => isReady(branch));
      assert.equal(await serving(), true);
    });

    test(`${name}: ${branch}.service.execution_period says when checks run, and 0 that they never run`, async (t) => {
      let runs = 0;
      const count = (process: SluiceProcess) =>
        void process.health[branch].check("counted", () => `run ${++runs}`);
      const period = `${key}_SERVICE_EXECUTION_PERIOD`;
      const { clock, status } = await probed(t, { name, env: { [period]: "3s" }, prepare: count });
      const before = runs;
      clock.advance(3_000);
      assert.equal(runs, before + 1);
      await until("the result is shown", async () =>
        (await status(branch)).text.includes(`run ${before + 1}`),
      );
      runs = 0;
      const never = await processOn(t, name, { env: { [period]: "0s" }, prepare: count });
      never.clock.advance(100_000);
      assert.equal(runs, 0);
      const { status: code, body } = await call(
        never.address,
        "GET",
        `/v1/status/system/${branch}`,
      );
      assert.equal(code, 200);
      assert.match(body, /never runs/);
    });

    test(`${name}: ${branch}.service.execution_timeout ends a check that hangs`, async (t) => {
      const held = heldCheck();
      const { process, clock, status, serving, isReady } = await probed(t, {
        name,
        env: {
          [`${key}_SERVICE_EXECUTION_TIMEOUT`]: "700ms",
          [`${key}_SERVICE_INITIALLY_HEALTHY`]: "true",
        },
      });
      process.health[branch].check("slow", held.run);
      clock.advance(699);
      assert.equal(await isReady(branch), true);
      clock.advance(1);
      assert.equal(await isReady(branch), false);
      assert.match((await status(branch)).text, /did not end within 700 ms/);
      assert.equal(await serving(), false);
    });

    test(`${name}: ${branch}.service.initially_healthy is the answer before the first run`, async (t) => {
      for (const healthy of [false, true]) {
        const { process, serving, isReady } = await probed(t, {
          name,
          env: { [`${key}_SERVICE_INITIALLY_HEALTHY`]: String(healthy) },
        });
        process.health[branch].check("slow", heldCheck().run);
        assert.equal(await isReady(branch), healthy);
        assert.equal(await serving(), healthy);
      }
    });

    for (const [variable, value, atOnce] of [
      ["BLOCKING_EXECUTION", "true", 1],
      ["WORKER_LIMIT", "2", 2],
      ["WORKER_LIMIT", "0", 3],
    ] as const)
      test(`${name}: ${branch}.scheduler.${variable.toLowerCase()} ${value} runs ${atOnce} of three checks at once`, async (t) => {
        const { process, status } = await probed(t, {
          name,
          env: { [`${key}_SCHEDULER_${variable}`]: value },
        });
        const held = heldCheck();
        for (const check of ["a", "b", "c"]) process.health[branch].check(check, held.run);
        assert.equal(held.runs.length, atOnce);
        for (const run of [...held.runs]) run.resolve("fine");
        await until("as many results are shown", async () => {
          const shown = (await status(branch)).text.match(/"value":"fine"/g) ?? [];
          return shown.length === atOnce;
        });
        for (let at = atOnce; at < 3; at++) {
          await until("the next check runs", () => held.runs.length > at);
          held.runs[at]?.resolve("fine");
        }
      });
  }

test("what stands in for a dependency makes the process ready, and it stays degraded until it is there", async (t) => {
  const { process, isReady, status } = await probed(t);
  const store = process.health.dependency("store");
  process.health.doWithout("store");
  assert.equal(await isReady("readiness"), true);
  assert.match((await status("readiness")).text, /degraded: it has not answered yet/);
  store.degraded("connection refused");
  assert.equal(await isReady("readiness"), true);
  assert.match((await status("readiness")).text, /degraded: connection refused/);
  store.ok("connected");
  assert.doesNotMatch((await status("readiness")).text, /degraded/);
});

test("a dependency that is away before it was ever there keeps the process from being ready; a later loss is degraded and leaves it ready", async (t) => {
  const { process, serving, isReady, status, address } = await probed(t);
  const store = process.health.dependency("store");
  assert.equal(await isReady("readiness"), false);
  assert.equal(await isReady("liveness"), true, "no reason to restart");
  store.degraded("connection refused");
  assert.equal(await isReady("readiness"), false);
  assert.match((await status("readiness")).text, /store is not ready yet: connection refused/);
  assert.equal(await serving(), false);
  store.ok("connected");
  assert.equal(await isReady("readiness"), true);
  assert.equal(await serving(), true);
  const metric = async () => {
    const { body } = await call(address, "GET", "/metrics");
    return /^sluice_dependency_degraded\{dependency="store"\} (\d)$/m.exec(body)?.[1];
  };
  assert.equal(await metric(), "0");
  store.degraded("connection reset");
  assert.equal(await isReady("readiness"), true);
  assert.equal(await serving(), true);
  assert.match((await status("readiness")).text, /degraded: connection reset/);
  assert.equal(await metric(), "1");
  store.ok("connected again");
  assert.doesNotMatch((await status("readiness")).text, /degraded/);
  assert.equal(await metric(), "0");
});

test("gRPC health tells those that watch it", async (t) => {
  const { process, address } = await probed(t);
  const seen: number[] = [];
  const watch = grpcClient(t, address).serverStream(
    "/grpc.health.v1.Health/Watch",
    new Uint8Array(),
  );
  watch.on("data", (message: Uint8Array) => seen.push(message[1] ?? 0));
  watch.on("error", () => undefined);
  await until("the first answer", () => seen.length === 1);
  const remove = process.health.liveness.check("disk", () => {
    throw new Fault("UNAVAILABLE", "full");
  });
  await until("the second answer", () => seen.length === 2);
  remove();
  await until("the third answer", () => seen.length === 3);
  assert.deepEqual(seen, [1, 2, 1]);
  watch.cancel();
});

test("an event loop that was stuck for longer than liveness.service.execution_timeout fails liveness for one period", async (t) => {
  const clock = fakeClock();
  const held = { late: 0 };
  const late = { ...clock, now: () => clock.now() + held.late };
  const { status, isReady, process } = await probed(t, {
    clock: Object.defineProperty(late, "alarms", { get: () => clock.alarms }),
    env: { LIVENESS_SERVICE_EXECUTION_TIMEOUT: "4s" },
  });
  assert.equal(await isReady("liveness"), true);
  held.late = 6_000;
  clock.advance(10_000);
  await until("the check has run", async () => !(await isReady("liveness")));
  assert.match((await status("liveness")).text, /the event loop was stuck for 6000 ms/);
  clock.advance(10_000);
  await until("the check has run again", () => isReady("liveness"));
  assert.equal(process.health.phase, "running");
});

test("readiness fails while a port of the process accepts no connections", async (t) => {
  const { ports, process, clock } = await probed(t, {
    env: { SERVER_ADMINISTRATION_ADDR: "127.0.0.1:0" },
  });
  const { administration } = ports;
  assert.ok(administration);
  const trouble = () => process.health.root.find("system/readiness")?.firstError();
  await until("both ports were checked", () => trouble() === undefined);
  await administration.cut();
  clock.advance(10_000);
  await until("the check has run", () => trouble() !== undefined);
  assert.match(trouble() ?? "", /executor:administration: cannot connect to 127\.0\.0\.1:\d+/);
});
