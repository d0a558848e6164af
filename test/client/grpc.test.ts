// Streams of the gRPC client, against a port that sends back what it receives, and why a server cannot be called.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { GrpcService } from "#base/handler.ts";
import { GrpcClient } from "#client/grpc.ts";
import { grpcServer } from "#client/grpc-server.ts";
import { realClock } from "#runtime/life/clock.ts";
import { processOn } from "../kit/process.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { configOf } from "../kit/sluice/config.ts";
import { testPort } from "../kit/sluice/port.ts";
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

test("a server that speaks TLS where the client does not, or the reverse, is said to be the reason, with the key to change", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const secure = await testPort(t, { settings: { tls } });
  const plain = await testPort(t);
  const { client: settings } = configOf("agent").config.agent_functions;
  const refusal = async (endpoint: string) => {
    const { client } = grpcServer({
      endpoint,
      defaultPort: 1,
      settings: settings.grpc,
      proxy: { http: "", https: "", no_proxy: [] },
      env: {},
      clock: realClock(),
      key: "agent_functions.endpoints",
      tlsKey: "agent_functions.client.grpc.tls",
    });
    t.after(() => client.close());
    const call = client.call("/a/B", Buffer.alloc(0), { timeoutMs: 10_000 });
    const fault = Fault.from(await call.catch((thrown: unknown) => thrown));
    assert.equal(fault.code, "UNAVAILABLE");
    return fault.message;
  };
  assert.match(
    await refusal(`https://${plain.address}`),
    /^cannot connect: .*; if the server does not speak TLS on this port, say http:\/\/ in agent_functions\.endpoints$/,
  );
  assert.match(
    await refusal(`http://${secure.address}`),
    /^cannot connect: .*; if the server speaks only TLS on this port, say https:\/\/ in agent_functions\.endpoints$/,
  );
});
