// Both gRPC clients of Envoy, its own and that of Google's C core, with Sluice's own transport, over TCP and over a
// Unix socket.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type Client, http1, http2 } from "../kit/clients/http.ts";
import { folderOf } from "../kit/folder.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { type Envoy, startEnvoy, startService } from "../kit/servers/envoy.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { POLICIES } from "./policies.ts";

/** The setting `grpc_service` of each client, for an agent's address. */
const CLIENTS = {
  envoy_grpc: () => ({ envoy_grpc: { cluster_name: "sluice" } }),
  google_grpc: (address: string) => ({
    google_grpc: { target_uri: address, stat_prefix: "google" },
  }),
} as const;

/** More bytes than fit into one HTTP/2 frame, and less than the filter forwards. */
const BODY = JSON.stringify({ account: { plan: "gold" }, padding: "x".repeat(50_000) });
const AT_ONCE = 300;

for (const client of ["envoy_grpc", "google_grpc"] as const) {
  for (const kind of ["tcp", "unix"] as const) {
    test(`${client} over ${kind}`, async (t) => {
      const { envoy, address } = await house(t, client, kind);
      const one = http1(t, envoy.url);
      await assertAnswers(one);
      await assertAnswers(http2(t, envoy.url));

      const long = { method: "POST", path: "/", body: BODY, headers: JSON_TYPE };
      const { status, body } = await one(long);
      assert.equal(status, 200);
      // The whole body reached the agent: a classifier reads a label out of it.
      assert.match(JSON.parse(body).headers.baggage, /plan=gold/);

      const many = await Promise.all(Array.from({ length: AT_ONCE }, () => one({ path: "/busy" })));
      assert.deepEqual([...new Set(many.map((answer) => answer.status))], [503]);

      const asked = AT_ONCE + 1 + 2 * ANSWERS.length;
      const refused = AT_ONCE + 2 * ANSWERS.filter(([, status]) => status !== 200).length;
      assert.deepEqual(await counted(address, "flowcontrol_decisions_total", "decision_type"), {
        DECISION_TYPE_ACCEPTED: asked - refused,
        DECISION_TYPE_REJECTED: refused,
      });
      assert.equal(await envoy.stat("http.ingress.ext_authz.sluice.denied"), refused);
      assert.equal(await envoy.stat("http.ingress.ext_authz.sluice.error"), 0);
      // Health checks come from Envoy's own client on other connections. No client violated the protocol.
      const faults = await counted(address, "http2_server_faults_total", "fault");
      assert.ok(Object.keys(faults).length > 0);
      for (const [fault, count] of Object.entries(faults)) assert.equal(count, 0, fault);
    });
  }
}

const JSON_TYPE = { "content-type": "application/json" };
/** Paths, each with the status that clients get. */
const ANSWERS = [
  ["/anything", 200],
  ["/shut", 403],
  ["/busy", 503],
] as const;

async function assertAnswers(ask: Client): Promise<void> {
  for (const [path, wanted] of ANSWERS) {
    const { status } = await ask({ path });
    assert.equal(status, wanted, path);
  }
}

interface House {
  readonly envoy: Envoy;
  /** Address of Sluice. */
  readonly address: string;
}

async function house(
  test: TestContext,
  client: keyof typeof CLIENTS,
  kind: "tcp" | "unix",
): Promise<House> {
  const addr = kind === "tcp" ? "127.0.0.1:0" : `unix:${join(folderOf(test), "sluice.sock")}`;
  const { address } = await standalone(test, {
    policies: POLICIES,
    env: { SVC_AGENT_SERVER_LISTENER_ADDR: addr, SVC_AGENT_SERVER_GRPC_TRANSPORT: "own" },
  });
  const envoy = await startEnvoy(test, {
    agent: address,
    service: await startService(test),
    edit(bootstrap) {
      bootstrap.serviceSpeaksHttp1();
      bootstrap.set([...AT.extAuthz, "grpc_service"], {
        ...CLIENTS[client](address),
        // A machine that is busy with other tests must not look like an unreachable agent.
        timeout: "5s",
        initial_metadata: [{ key: "control-point", value: "ingress" }],
      });
      bootstrap.set([...AT.extAuthz, "with_request_body", "max_request_bytes"], 2 * BODY.length);
    },
  });
  return { envoy, address };
}
