// The age at which both transports ask clients to connect anew, and what becomes of calls in progress.

import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { connectionsTo } from "../../kit/attack/server-end.ts";
import { until } from "../../kit/until.ts";
import { call, HOUR_MS, message, overBoth, unary } from "./transport-setup.ts";

/** Time from before connecting until GOAWAY, ms. */
async function ageOf(t: TestContext, address: string): Promise<number> {
  const started = performance.now();
  const session = connectHttp2(`http://${address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  await new Promise((resolve) => session.once("goaway", resolve));
  return performance.now() - started;
}

overBoth(({ serving }) => {
  // `test/h2/lifecycle/goaway.test.ts` has the spread, in virtual time.
  test("sends GOAWAY at max_connection_age, less a tenth by which it is spread", async (t) => {
    const { port } = await serving(
      t,
      { Say: unary((bytes) => bytes) },
      { grpc: { max_connection_age: 500 } },
    );
    const ages = await Promise.all(Array.from({ length: 10 }, () => ageOf(t, port.address)));
    // Timers may fire a millisecond early, and late on a busy machine.
    for (const age of ages) assert.ok(age >= 448, `${age} ms`);
  });

  test("callers do not notice a GOAWAY at max_connection_age", async (t) => {
    const { client, port } = await serving(
      t,
      { Say: unary((bytes) => bytes) },
      { grpc: { max_connection_age: 100, max_connection_age_grace: HOUR_MS } },
    );
    while (connectionsTo(port.port) < 5) {
      const reply = await client.unary("/test.Service/Say", message);
      assert.equal(reply.code, 0, reply.details);
      await turn();
    }
  });

  test("a call in progress outlives max_connection_age by max_connection_age_grace, and no longer", async (t) => {
    const aborted: boolean[] = [];
    const methods = {
      Wait: unary((_, call) => {
        const { promise, resolve } = Promise.withResolvers<Uint8Array>();
        call.signal().addEventListener("abort", () => resolve(message));
        call.signal().addEventListener("abort", () => aborted.push(true));
        return promise;
      }),
    };
    const grpc = { max_connection_age: 200, max_connection_age_grace: 300 };
    const { client } = await serving(t, methods, { grpc });
    const started = performance.now();
    // If the grace were ignored, this deadline would end the call instead.
    const reply = await client.unary("/test.Service/Wait", message, { timeout: 60_000 });
    const lasted = performance.now() - started;
    assert.ok(lasted >= 478, `${lasted} ms`);
    assert.ok(reply.code !== 0 && reply.code !== 4, `${reply.code} ${reply.details}`);
    await until("signal", () => aborted.length > 0);
  });

  test("without max_connection_age_grace, calls in progress may take as long as they need", async (t) => {
    const waiting: (() => void)[] = [];
    const methods = {
      Wait: unary((bytes) => new Promise((resolve) => waiting.push(() => resolve(bytes)))),
    };
    const { port } = await serving(t, methods, { grpc: { max_connection_age: 100 } });
    const session = connectHttp2(`http://${port.address}`);
    t.after(() => session.destroy());
    const status = call(session, Buffer.from([0, 0, 0, 0, 0]), { ":path": "/test.Service/Wait" });
    await new Promise((resolve) => session.once("goaway", resolve));
    // Another connection that begins now ends: the time has passed once more.
    await ageOf(t, port.address);
    for (const release of waiting) release();
    assert.equal(await status, "0");
  });
});
