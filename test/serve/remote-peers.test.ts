// JSON and gRPC over HTTP/2 without TLS for peers on other machines. Clients such as those of gRPC wait for SETTINGS before
// they send a request, so nothing but the transport's own routing can tell the two apart.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { GrpcService, Route } from "#base/handler.ts";
import { curl, grpcurl } from "../../deploy/tools/install.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { inOwnNetwork } from "../kit/network.ts";
import { child } from "../kit/servers/child.ts";
import { testPort } from "../kit/sluice/port.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const JSON_CHECK = "/v1/flowcontrol/checkhttp";
const GRPC_CHECK = "envoy.service.auth.v3.Authorization/Check";
const CHECK_HTTP = JSON.stringify({ control_point: "ingress", request: { method: "GET" } });
const CHECK = JSON.stringify({ attributes: { request: { http: { method: "GET", path: "/" } } } });

const who: GrpcService = {
  name: "test.Who",
  methods: { Am: { kind: "unary", handle: (_, call) => Buffer.from(call.peer) } },
};
const me: Route = {
  method: "GET",
  path: "/me",
  about: "Names the peer",
  handle: (_, call) => ({ status: 200, headers: {}, body: call.peer }),
};

async function outputOf(t: TestContext, command: string, args: readonly string[]) {
  const run = child(t, command, args);
  assert.equal(await run.ended, 0, run.out() + run.err());
  return run.out();
}

inOwnNetwork(import.meta.filename, ([here, there]) => {
  const overHttp2 = (t: TestContext, url: string, ...more: readonly string[]) =>
    outputOf(t, curl(), [
      "--silent",
      "--show-error",
      "--http2-prior-knowledge",
      "--interface",
      there,
      "--write-out",
      "\n%{http_version} %{http_code}",
      ...more,
      url,
    ]);

  for (const [transport, answer] of [
    ["auto", `${there}\n2 200`],
    ["own", `${there}\n2 200`],
    ["grpc-js", "\n2 415"],
  ] as const) {
    test(`${transport}: a remote peer reaches gRPC, and JSON over HTTP/2 gives ${answer.slice(-3)}`, async (t) => {
      const settings = { listener: { addr: `${here}:0` }, grpc: { transport } };
      const port = await testPort(t, { services: [who], routes: [me], settings });
      assert.equal(port.remote, true);
      assert.equal(await overHttp2(t, `http://${port.address}/me`), answer);
      const called = await grpcClient(t, port.address).unary("/test.Who/Am", Buffer.alloc(0));
      assert.equal(String(called.message), here);
    });
  }

  test("by default, curl's JSON and grpc-go's gRPC from a remote address are both judged", async (t) => {
    const { address } = await standalone(t, {
      policies: {},
      env: {
        SVC_AGENT_SERVER_LISTENER_ADDR: `${here}:0`,
        SVC_AGENT_SERVER_GRPC_ENABLE_REFLECTION: "true",
        SVC_AGENT_SERVER_ADMINISTRATION_INSECURE: "true",
      },
    });
    const type = ["--header", "content-type: application/json"];
    const reply = await overHttp2(
      t,
      `http://${address}${JSON_CHECK}`,
      ...type,
      "--data",
      CHECK_HTTP,
    );
    assert.match(reply, /"DECISION_TYPE_ACCEPTED".*\n2 200$/s);
    const called = ["-plaintext", "-H", "control-point: ingress", "-d", CHECK, address, GRPC_CHECK];
    assert.match(await outputOf(t, grpcurl(), called), /"aperture\.check_response":/);
    assert.deepEqual(await counted(address, "flowcontrol_decisions_total", "decision_type"), {
      DECISION_TYPE_ACCEPTED: 2,
    });
  });
});
