// Streams of the gRPC client, against a port that sends back what it receives.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import { GrpcClient } from "#client/grpc.ts";
import { realClock } from "#host/life/clock.ts";
import { processOn } from "../kit/process.ts";
import { until } from "../kit/until.ts";

test("a message that cannot be read ends its stream with a fault, and nothing else", async (t) => {
  let streams = 0;
  const service: GrpcService = {
    name: "test.Echo",
    access: "administration",
    methods: {
      Echo: {
        kind: "stream",
        client: true,
        server: true,
        handle: async ({ messages, send }) => {
          streams += 1;
          try {
            for await (const bytes of messages) await send(bytes);
          } finally {
            streams -= 1;
          }
        },
      },
    },
    healthNames: [],
  };
  const parts = [{ routes: [], services: [service] }];
  const { address } = await processOn(t, "controller", { parts, context: { clock: realClock() } });
  const client = new GrpcClient({ address });
  t.after(() => client.close());
  const received: string[] = [];
  const ends: (Fault | undefined)[] = [];
  const stream = await client.stream("/test.Echo/Echo", {
    received: (bytes) => {
      const message = Buffer.from(bytes).toString();
      received.push(message);
      if (message === "bad") throw new Fault("INVALID_ARGUMENT", "wanted good, got bad");
    },
    ended: (fault) => void ends.push(fault),
  });
  for (const message of ["good", "bad", "late"]) stream.send(Buffer.from(message));
  await until("it has ended", () => ends.length > 0);
  await until("the server knows that it was cancelled", () => streams === 0);
  const [fault] = ends;
  assert.equal(fault?.code, "INTERNAL");
  assert.match(fault?.message ?? "", /message of the server cannot be read: wanted good, got bad/);
  assert.equal(ends.length, 1);
  assert.deepEqual(received, ["good", "bad"]);
});
