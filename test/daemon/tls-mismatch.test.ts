// Clients that speak TLS to a port without it, or cleartext to a port with it: the log and the status name them, since an
// SDK takes a connection that is closed for an agent that is away, and lets its requests pass.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelCredentials, status } from "@grpc/grpc-js";
import { grpcClient } from "../kit/clients/grpc.ts";
import { fakeClock } from "../kit/clock.ts";
import { processOn } from "../kit/process.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";

const MINUTE = 60_000;
const ON_CLEARTEXT =
  "a client speaks TLS to this port, where TLS is off: switch it off in the client, or on here (server.tls.enabled)";
const ON_TLS =
  "a client speaks cleartext to this port, where TLS is on: switch it on in the client";

for (const tls of [false, true])
  test(`log and status name clients that speak ${tls ? "cleartext to a port with" : "TLS to a port without"} TLS`, async (t) => {
    const ca = authority(temporaryFolder(t), "ca");
    const { certFile, keyFile } = ca.issue("server");
    const clock = fakeClock();
    const certificate = {
      SERVER_TLS_ENABLED: "true",
      SERVER_TLS_CERT_FILE: certFile,
      SERVER_TLS_KEY_FILE: keyFile,
    };
    const { address, process, lines } = await processOn(t, "agent", {
      clock,
      env: tls ? certificate : {},
    });
    const credentials = tls
      ? ChannelCredentials.createInsecure()
      : ChannelCredentials.createSsl(Buffer.from(ca.cert));
    const callGrpc = async () => {
      const client = grpcClient(t, address, credentials, {
        "grpc.ssl_target_name_override": "localhost",
      });
      const reply = await client.unary("/grpc.health.v1.Health/Check", Buffer.alloc(0));
      client.close();
      assert.equal(reply.code, status.UNAVAILABLE, reply.details);
    };
    const callHttp = async () => {
      const url = `${tls ? "http" : "https"}://${address}/healthz`;
      const code = await fetch(url).then(
        (reply) => reply.status,
        () => "refused",
      );
      assert.equal(code, tls ? 400 : "refused");
    };
    const message = tls ? ON_TLS : ON_CLEARTEXT;
    const logged = () => lines.filter((line) => line.message === message);
    const counts = () =>
      logged().map(({ level, fields }) => {
        assert.equal(level, "warn");
        assert.equal(fields["peer"], "127.0.0.1");
        return fields["refused_since_last_line"];
      });
    const shown = () => process.health.root.find("system/tls/port/port")?.firstError();

    assert.equal(shown(), undefined);
    await callHttp();
    assert.deepEqual(counts(), [1]);
    assert.equal(shown(), `${message}; the last one was 127.0.0.1`);
    await callHttp();
    clock.advance(MINUTE - 1);
    await callHttp();
    assert.deepEqual(counts(), [1], "one line a minute");
    clock.advance(1);
    await callGrpc();
    assert.deepEqual(counts(), [1, 3]);
    clock.advance(5 * MINUTE - 1);
    assert.notEqual(shown(), undefined);
    clock.advance(1);
    assert.equal(shown(), undefined);
  });
