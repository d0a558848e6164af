// Runs gRPC's official interoperability client against both transports: every case that needs no cloud account.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { interopClient } from "../../../../deploy/tools/install.ts";
import { child } from "../../../kit/servers/child.ts";
import { interopServices } from "../../../kit/servers/interop-service.ts";
import { authority, temporaryFolder } from "../../../kit/servers/tls.ts";
import { type Overrides, testPort } from "../../../kit/sluice/port.ts";

/** Lets the client read load reports, with the load balancing policy that it defines for these cases. */
const REPORTS = `--service_config_json=${JSON.stringify({
  loadBalancingConfig: [{ test_backend_metrics_load_balancer: {} }],
})}`;
/** A few concurrent calls, with a generous latency limit for busy machines. */
const SOAK = [
  "--soak_iterations=48",
  "--soak_num_threads=4",
  "--soak_overall_timeout_seconds=60",
  "--soak_per_iteration_max_acceptable_latency_ms=10000",
];

/** Additional client arguments for each case. */
const CASES: Readonly<Record<string, readonly string[]>> = {
  empty_unary: [],
  large_unary: [],
  client_streaming: [],
  server_streaming: [],
  ping_pong: [],
  empty_stream: [],
  timeout_on_sleeping_server: [],
  cancel_after_begin: [],
  cancel_after_first_response: [],
  status_code_and_message: [],
  special_status_message: [],
  custom_metadata: [],
  unimplemented_method: [],
  unimplemented_service: [],
  pick_first_unary: [],
  rpc_soak: SOAK,
  channel_soak: SOAK,
  orca_per_rpc: [REPORTS],
  orca_oob: [REPORTS],
};

const GOOGLE = "needs a token from Google's servers";

/** Reasons why the other cases are not run. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  compute_engine_creds: GOOGLE,
  service_account_creds: GOOGLE,
  jwt_token_creds: "signs with the key of an account at Google",
  per_rpc_creds: GOOGLE,
  oauth2_auth_token: GOOGLE,
  google_default_credentials: GOOGLE,
  compute_engine_channel_credentials: GOOGLE,
};

/** Number of cases that run concurrently. */
const CONCURRENCY = 4;

test("the client has exactly the cases listed here", () => {
  const source = readFileSync(interopClient().source, "utf8");
  const known = new Set([...source.matchAll(/^\tcase "(\w+)":$/gm)].map(([, name = ""]) => name));
  const listed = new Set([...Object.keys(CASES), ...Object.keys(LEFT_OUT)]);
  assert.deepEqual([...listed].sort(), [...known].sort());
});

for (const transport of ["own", "grpc-js"] as const) {
  test(`passes gRPC's interoperability cases over cleartext: ${transport}`, async (t) => {
    await runCases(t, { grpc: { transport } }, []);
  });

  test(`passes gRPC's interoperability cases over TLS: ${transport}`, async (t) => {
    const ca = authority(temporaryFolder(t), "ca");
    const { certFile: cert_file, keyFile: key_file } = ca.issue("server");
    const tls = { enabled: true, cert_file, key_file };
    const trust = ["--use_tls", "--use_test_ca", `--ca_file=${ca.certFile}`];
    await runCases(t, { grpc: { transport }, tls }, [...trust, "--server_host_override=localhost"]);
  });
}

async function runCases(
  t: TestContext,
  settings: Overrides,
  args: readonly string[],
): Promise<void> {
  const { port, log } = await testPort(t, { settings, services: interopServices() });
  const waiting = Object.entries(CASES);
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, further] = next;
      await t.test(name, async (t) => {
        const to = ["--server_host=127.0.0.1", `--server_port=${port}`, `--test_case=${name}`];
        const run = child(t, interopClient().command, [...to, ...args, ...further]);
        assert.equal(await run.ended, 0, run.out() + run.err());
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  // The library logs callers that cancel in the middle of a stream as errors.
  if (settings.grpc?.transport !== "own") return;
  assert.deepEqual(
    log.lines.filter(({ level }) => level === "error"),
    [],
  );
}
