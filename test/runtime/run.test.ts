import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import type { Speed } from "#base/scope.ts";
import { EXIT, type Main, type ProcessContext, type ProcessEvent, run } from "#runtime/life/run.ts";
import { fakeClock } from "../kit/clock.ts";

function stage(main: Main) {
  const clock = fakeClock();
  const listeners = new Map<ProcessEvent, (what: unknown) => void>();
  const said: string[] = [];
  const exits: number[] = [];
  const forced: boolean[] = [];
  let held = 0;
  const ended = run(main, {
    argv: ["--flag"],
    env: { NAME: "value" },
    clock,
    stderr: (text) => void said.push(text),
    exit: (code, force) => {
      exits.push(code);
      forced.push(force);
    },
    on: (event, listener) => void listeners.set(event, listener),
    off: (event, listener) => {
      if (listeners.get(event) === listener) listeners.delete(event);
    },
    keepAlive() {
      held++;
      return () => void held--;
    },
  });
  const send = async (event: ProcessEvent, what?: unknown) => {
    listeners.get(event)?.(what);
    await turn();
  };
  const left = () => ({ listeners: listeners.size, alarms: clock.alarms, held });
  return { clock, said, exits, forced, ended, send, left, text: () => said.join("") };
}

const NOTHING = { listeners: 0, alarms: 0, held: 0 };

/** A server that stops when it is told to, by drain only when it is `free`. */
function server(free: Promise<void> = Promise.resolve()) {
  const speeds: Speed[] = [];
  const cut = Promise.withResolvers<void>();
  let context: ProcessContext | undefined;
  const main: Main = async (given) => {
    context = given;
    given.scope.add("server", async (speed) => {
      speeds.push(speed);
      if (speed === "cut") cut.resolve();
      await Promise.race([free, cut.promise]);
    });
    return undefined;
  };
  return { main, speeds, context: () => context };
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal} drains and ends with 0`, async () => {
    const { main, speeds, context } = server();
    const it = stage(main);
    await turn();
    assert.deepEqual([it.exits, it.left().held], [[], 1]);
    assert.equal(context()?.stopping.aborted, false);
    await it.send(signal);
    assert.equal(await it.ended, EXIT.clean);
    assert.deepEqual([it.exits, it.forced, speeds], [[0], [false], ["drain"]]);
    assert.equal(context()?.stopping.aborted, true);
    assert.match(it.text(), new RegExp(`${signal}: draining`));
    assert.match(it.text(), /drained/);
    assert.deepEqual(it.left(), NOTHING);
  });
}

test("SIGHUP calls what reloads, and ends nothing", async () => {
  const { main, speeds, context } = server();
  const it = stage(main);
  await turn();
  const heard: string[] = [];
  context()?.onReload(() => heard.push("one"));
  context()?.onReload(() => heard.push("two"));
  await it.send("SIGHUP");
  await it.send("SIGHUP");
  assert.deepEqual(heard, ["one", "two", "one", "two"]);
  assert.deepEqual([it.exits, speeds], [[], []]);
  await it.send("SIGTERM");
  await it.send("SIGHUP");
  assert.equal(await it.ended, EXIT.clean);
  assert.deepEqual([heard.length, speeds], [4, ["drain"]]);
});

test("SIGHUP ends a process that reloads nothing", async () => {
  const { main, speeds } = server();
  const it = stage(main);
  await turn();
  await it.send("SIGHUP");
  assert.equal(await it.ended, EXIT.clean);
  assert.deepEqual(speeds, ["drain"]);
});

test("a second signal cuts the drain", async () => {
  const { main, speeds } = server(new Promise(() => undefined));
  const it = stage(main);
  await it.send("SIGTERM");
  assert.deepEqual([speeds, it.exits], [["drain"], []]);
  await it.send("SIGINT");
  assert.equal(await it.ended, 128 + 2);
  assert.deepEqual(speeds, ["drain", "cut"]);
  assert.deepEqual(it.left(), NOTHING);
});

test("a drain beyond its time limit is cut and does not exit with 0", async () => {
  const { main, speeds } = server(new Promise(() => undefined));
  const it = stage(main);
  await it.send("SIGTERM");
  it.clock.advance(14_999);
  await turn();
  assert.deepEqual(speeds, ["drain"]);
  it.clock.advance(1);
  assert.equal(await it.ended, EXIT.internal);
  assert.deepEqual(speeds, ["drain", "cut"]);
  assert.match(it.text(), /did not end within 15000 ms/);
});

test("even a stop that ignores the cut does not keep the process alive", async () => {
  const it = stage(async ({ scope }) => {
    scope.add("deaf", () => new Promise(() => undefined));
    return undefined;
  });
  await it.send("SIGTERM");
  await it.send("SIGTERM");
  it.clock.advance(1_000);
  assert.equal(await it.ended, 128 + 15);
  assert.deepEqual(it.forced, [true]);
});

test("a configuration fault ends with 64 and its whole message", async () => {
  const it = stage(async () => {
    throw new Fault("INVALID_ARGUMENT", "server.listener.addr: wanted host:port, got a blank");
  });
  assert.equal(await it.ended, EXIT.usage);
  assert.match(it.text(), /cannot start: server\.listener\.addr: wanted host:port/);
  assert.deepEqual(it.left(), NOTHING);
});

test("credentials that a server refuses are a fault of the configuration, at the start and later", async () => {
  for (const code of ["FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED"] as const) {
    const it = stage(async () => {
      throw new Fault(code, "refused");
    });
    assert.equal(await it.ended, EXIT.usage, code);
  }
  for (const [thrown, wanted] of [
    [new Fault("UNAUTHENTICATED", "refused"), EXIT.usage],
    [new Fault("PERMISSION_DENIED", "refused"), EXIT.usage],
    [new Fault("INVALID_ARGUMENT", "not of the configuration"), EXIT.internal],
    [new Error("refused"), EXIT.internal],
  ] as const) {
    const it = stage(async ({ fail }) => {
      fail("following the store failed", thrown);
      return undefined;
    });
    assert.equal(await it.ended, wanted);
  }
});

test("any other failed start ends with 70, stops what had started and shows the stack", async () => {
  const { main, speeds } = server();
  const it = stage(async (context) => {
    await main(context);
    throw new Error("no such socket");
  });
  assert.equal(await it.ended, EXIT.internal);
  assert.deepEqual(speeds, ["drain"]);
  assert.match(it.text(), /cannot start\nError: no such socket\n\s+at /);
});

test("a start beyond its time limit is a failed start", async () => {
  const it = stage(() => new Promise(() => undefined));
  it.clock.advance(29_999);
  await turn();
  assert.deepEqual(it.exits, []);
  it.clock.advance(1);
  assert.equal(await it.ended, EXIT.internal);
  assert.match(it.text(), /cannot start: wanted a start within 30000 ms/);
  assert.deepEqual(it.forced, [true]);
});

test("a signal during the start waits for the start to end, then stops what it had started", async () => {
  const stopped: string[] = [];
  const it = stage(async ({ scope, stopping }) => {
    const given = Promise.withResolvers<void>();
    stopping.addEventListener("abort", () => given.resolve(), { once: true });
    await given.promise;
    await turn();
    scope.add("late", () => void stopped.push("late"));
    return undefined;
  });
  await it.send("SIGTERM");
  assert.equal(await it.ended, EXIT.clean);
  assert.deepEqual(stopped, ["late"]);
});

test("a one-shot main ends with its own code", async () => {
  const it = stage(async ({ argv, env }) => {
    assert.deepEqual([argv, env], [["--flag"], { NAME: "value" }]);
    return EXIT.refused;
  });
  assert.equal(await it.ended, EXIT.refused);
  assert.deepEqual([it.text(), it.left()], ["", NOTHING]);
});

test("an essential part that fails stops the process with 70", async () => {
  const { main, speeds, context } = server();
  const it = stage(main);
  await turn();
  context()?.fail("the listener broke", new Error("EBADF"));
  assert.equal(await it.ended, EXIT.internal);
  assert.deepEqual(speeds, ["drain"]);
  assert.match(it.text(), /the listener broke\nError: EBADF/);
});

for (const event of ["uncaughtException", "unhandledRejection"] as const) {
  test(`${event} is reported once, cuts and ends with 70`, async () => {
    const speeds: Speed[] = [];
    const it = stage(async ({ scope }) => {
      scope.add("deaf", (speed) => {
        speeds.push(speed);
        return new Promise(() => undefined);
      });
      return undefined;
    });
    await turn();
    await it.send(event, new Error("first"));
    await it.send(event, new Error("second"));
    it.clock.advance(1_000);
    assert.equal(await it.ended, EXIT.internal);
    assert.deepEqual(speeds, ["cut"]);
    assert.equal(it.text().split("first").length, 2);
    assert.doesNotMatch(it.text(), /second/);
    assert.deepEqual(it.left(), NOTHING);
  });
}

test("a crash while draining cuts the drain", async () => {
  const { main, speeds } = server(new Promise(() => undefined));
  const it = stage(main);
  await it.send("SIGTERM");
  await it.send("uncaughtException", new Error("late"));
  assert.equal(await it.ended, EXIT.internal);
  assert.deepEqual(speeds, ["drain", "cut"]);
});

test("once main hands over a log, the process writes to it", async () => {
  const logged: unknown[] = [];
  const it = stage(async ({ scope, useLog }) => {
    const broken = new Error("would not");
    scope.add("stubborn", () => Promise.reject(broken));
    useLog({
      info: (_, message) => logged.push(message),
      error: ({ error }, message) => logged.push([message, error === broken]),
      close: async () => void logged.push("closed"),
    });
    return undefined;
  });
  await it.send("SIGTERM");
  assert.equal(await it.ended, EXIT.clean);
  assert.deepEqual(logged, [
    "SIGTERM: draining",
    ["stop of stubborn failed", true],
    "drained",
    "closed",
  ]);
  assert.equal(it.text(), "");
});

test("a crash and a failed part are reported before the process ends, for five seconds at most; a signal is not", async () => {
  const reports: [string, unknown][] = [];
  const cause = new Error("broken");
  const reporting =
    (settled: Promise<void>, then: (context: ProcessContext) => void = () => undefined): Main =>
    async (context) => {
      context.onCrash(async (...report) => {
        reports.push(report);
        await settled;
      });
      then(context);
      return undefined;
    };
  const sent = Promise.withResolvers<void>();
  const crashed = stage(reporting(sent.promise));
  await crashed.send("uncaughtException", cause);
  for (let turns = 0; turns < 10; turns++) await turn();
  assert.deepEqual([reports, crashed.exits], [[["uncaught exception", cause]], []]);
  sent.resolve();
  assert.equal(await crashed.ended, EXIT.internal);

  const failed = stage(
    reporting(new Promise(() => {}), ({ fail }) => fail("lost the store", cause)),
  );
  for (let turns = 0; turns < 10; turns++) await turn();
  assert.deepEqual([reports[1], failed.exits], [["lost the store", cause], []]);
  failed.clock.advance(5_000);
  assert.equal(await failed.ended, EXIT.internal);

  const stopped = stage(reporting(new Promise(() => {})));
  await turn();
  await stopped.send("SIGTERM");
  assert.equal(await stopped.ended, EXIT.clean);
  assert.equal(reports.length, 2);
});
