// The connection of an agent to a controller: when it is made again, by `agent_functions.client.grpc.backoff`, and when an
// attempt is given up.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import type { GrpcClient } from "#client/grpc.ts";
import { FunctionRunner } from "#fleet/calls/functions.ts";
import { Outbound, type OutboundSettings } from "#fleet/calls/outbound.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

const SETTINGS: OutboundSettings = {
  min_connection_timeout: 20_000,
  backoff: { base_delay: 1_000, max_delay: 5_000, multiplier: 2, jitter: 0.2 },
};

/** A connection to a controller that refuses each attempt, or never answers. */
function outbound(t: TestContext, answers: "refuses" | "is silent", chance = 0.75) {
  const clock = fakeClock();
  const attempts: number[] = [];
  let cancelled = 0;
  const stream = async () => {
    attempts.push(clock.now());
    if (answers === "refuses") throw new Fault("UNAVAILABLE", "refused");
    return {
      send: () => undefined,
      cancel: () => {
        cancelled += 1;
      },
    };
  };
  const own = new Outbound({
    client: { stream, close: async () => undefined } as unknown as GrpcClient,
    metadata: {},
    settings: SETTINGS,
    self: () => ({ group: "default", address: "a:1", hostname: "a", services: {}, id: "1" }),
    functions: new FunctionRunner(new Map(), clock, memoryLog()),
    clock,
    chance: () => chance,
    state: () => undefined,
  });
  t.after(() => own.close());
  return { clock, attempts, cancelled: () => cancelled };
}

test("delays grow from base_delay by multiplier to max_delay, each longer or shorter by jitter", async (t) => {
  for (const [chance, random] of [
    [0.5, 1],
    [1, 1.2],
    [0, 0.8],
  ] as const) {
    const { clock, attempts } = outbound(t, "refuses", chance);
    await turn();
    const delays = [1_000, 2_000, 4_000, 5_000, 5_000].map((delay) => delay * random);
    for (const [made, delay] of delays.entries()) {
      clock.advance(delay - 1);
      await turn();
      assert.equal(attempts.length, made + 1, "not before the delay is over");
      clock.advance(1);
      await turn();
      assert.equal(attempts.length, made + 2);
    }
  }
});

test("an attempt without an answer is given up after min_connection_timeout", async (t) => {
  const { clock, cancelled } = outbound(t, "is silent");
  await turn();
  clock.advance(19_999);
  assert.equal(cancelled(), 0);
  clock.advance(1);
  assert.equal(cancelled(), 1);
});
