// Runs the usual client tools against a complete Sluice with its own HTTP/2 transport: ghz, grpcurl, h2load, curl and
// the gRPC
// libraries of Node and Python. Every call must be counted as exactly one decision.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary, toJsonString } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { curl, ghz, grpcurl, h2load } from "../../../../deploy/tools/install.ts";
import { grpcClient } from "../../../kit/clients/grpc.ts";
import { python } from "../../../kit/clients/grpcio.ts";
import { folderOf } from "../../../kit/folder.ts";
import { child } from "../../../kit/servers/child.ts";
import { authority, temporaryFolder } from "../../../kit/servers/tls.ts";
import { counted } from "../../../kit/sluice/scrape.ts";
import { standalone } from "../../../kit/sluice/standalone.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const CHECK = "envoy.service.auth.v3.Authorization/Check";
const JSON_CHECK = "/v1/flowcontrol/checkhttp";
const CALLS = 3_000;
/** Number of the calls that the policy accepts. */
const CAPACITY = 1_000;

const POLICY = `
circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 60s, limit_by_label_key: http.request.header.x_user }
`;

const REQUEST = create(CheckRequestSchema, {
  attributes: {
    request: { http: { method: "GET", path: "/page", headers: { "x-user": "ann" } } },
  },
});
const MESSAGE = toBinary(CheckRequestSchema, REQUEST);
const AS_JSON = toJsonString(CheckRequestSchema, REQUEST);
const CHECK_HTTP = JSON.stringify({
  control_point: "ingress",
  request: { method: "GET", path: "/page", headers: { "x-user": "ann" } },
});
const DECISION_ID = "x-sluice-decision-id";

type Env = Readonly<Record<string, string>>;

async function sluice(test: TestContext, env: Env = {}) {
  return standalone(test, {
    policies: { "limit.yaml": POLICY },
    env: {
      SVC_AGENT_SERVER_GRPC_TRANSPORT: "own",
      SVC_AGENT_SERVER_GRPC_ENABLE_REFLECTION: "true",
      ...env,
    },
  });
}

/** Runs a command to its end and returns its standard output. */
async function outputOf(
  test: TestContext,
  command: string,
  args: readonly string[],
): Promise<string> {
  const run = child(test, command, args);
  assert.equal(await run.ended, 0, run.out() + run.err());
  return run.out();
}

const decisions = (address: string, tls = false) =>
  counted(address, "flowcontrol_decisions_total", "decision_type", tls);

const AFTER_LOAD = {
  DECISION_TYPE_ACCEPTED: CAPACITY,
  DECISION_TYPE_REJECTED: CALLS - CAPACITY,
};

test("ghz: every call is answered with OK and counted as one decision", async (t) => {
  const { address } = await sluice(t);
  const out = await outputOf(t, ghz(), [
    "--insecure",
    "--call",
    CHECK,
    "--data",
    AS_JSON,
    "--metadata",
    JSON.stringify({ "control-point": "ingress" }),
    "--total",
    String(CALLS),
    "--concurrency",
    "64",
    "--connections",
    "4",
    "--timeout",
    "60s",
    "--format",
    "json",
    address,
  ]);
  const { count, statusCodeDistribution } = JSON.parse(out);
  assert.deepEqual(
    { count, statusCodeDistribution },
    { count: CALLS, statusCodeDistribution: { OK: CALLS } },
  );
  assert.deepEqual(await decisions(address), AFTER_LOAD);
});

test("h2load: gRPC and JSON work over cleartext and TLS", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const folder = folderOf(t);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(MESSAGE.length, 1);
  const bodies = { grpc: join(folder, "grpc"), json: join(folder, "json") };
  writeFileSync(bodies.grpc, Buffer.concat([prefix, MESSAGE]));
  writeFileSync(bodies.json, CHECK_HTTP);
  const loads = {
    grpc: [`/${CHECK}`, "content-type: application/grpc", "te: trailers", "control-point: ingress"],
    json: [JSON_CHECK, "content-type: application/json"],
  } as const;
  const secure = {
    SVC_AGENT_SERVER_TLS_ENABLED: "true",
    SVC_AGENT_SERVER_TLS_CERT_FILE: certFile,
    SVC_AGENT_SERVER_TLS_KEY_FILE: keyFile,
  };
  for (const [scheme, env] of [
    ["http", {}],
    ["https", secure],
  ] as const) {
    for (const protocol of ["grpc", "json"] as const) {
      await t.test(`${protocol} over ${scheme}`, async (t) => {
        const { address } = await sluice(t, env);
        const [path, ...headers] = loads[protocol];
        const out = await outputOf(t, h2load(), [
          "-n",
          String(CALLS),
          "-c",
          "4",
          "-m",
          "32",
          "-d",
          bodies[protocol],
          ...headers.flatMap((header) => ["-H", header]),
          `${scheme}://${address}${path}`,
        ]);
        assert.match(out, new RegExp(`${CALLS} done, ${CALLS} succeeded, 0 failed, 0 errored`));
        assert.match(out, new RegExp(`status codes: ${CALLS} 2xx`));
        assert.deepEqual(await decisions(address, scheme === "https"), AFTER_LOAD);
      });
    }
  }
});

test("grpcurl: lists and describes services by reflection, calls and watches", async (t) => {
  const { address, port } = await sluice(t);
  const ask = (...args: readonly string[]) => outputOf(t, grpcurl(), ["-plaintext", ...args]);
  const listed = (await ask(address, "list")).trim().split("\n");
  for (const name of ["envoy.service.auth.v3.Authorization", "grpc.health.v1.Health"]) {
    assert.ok(listed.includes(name), listed.join());
    assert.match(await ask(address, "list", name), /\.Check$/m);
  }
  // Every listed method answers: no call ends with UNIMPLEMENTED.
  for (const name of listed) {
    const methods = (await ask(address, "list", name)).trim().split("\n");
    for (const method of methods.filter((each) => !/Watch$|Reflection/.test(each))) {
      const called = child(t, grpcurl(), ["-plaintext", "-d", "{}", address, method.trim()]);
      assert.notEqual(await called.ended, 64 + 12, method);
    }
  }
  const described = await ask(address, "describe", "envoy.service.auth.v3.CheckRequest");
  assert.match(described, /AttributeContext attributes = 1;/);
  const args = ["-v", "-H", "control-point: ingress", "-d", AS_JSON, address, CHECK];
  const answer = await ask(...args);
  assert.match(answer, new RegExp(`^${DECISION_ID}: \\S+$`, "m"));
  assert.match(answer, /"aperture\.check_response":/);
  assert.deepEqual(await decisions(address), { DECISION_TYPE_ACCEPTED: 1 });
  assert.match(await ask(address, "grpc.health.v1.Health/Check"), /"status": "SERVING"/);

  const refused = child(t, grpcurl(), ["-plaintext", "-d", AS_JSON, address, CHECK]);
  assert.equal(await refused.ended, 64 + 3, "INVALID_ARGUMENT without a control point");

  const watch = child(t, grpcurl(), ["-plaintext", address, "grpc.health.v1.Health/Watch"]);
  await watch.until("it serves", () => watch.out().includes('"SERVING"'));
  port.health.set("", false);
  await watch.until("it does not", () => watch.out().includes('"NOT_SERVING"'));
  await port.drain();
  assert.equal(await watch.ended, 64 + 14, "UNAVAILABLE when the port closes");
});

test("curl: JSON and health work over HTTP/2 and HTTP/1.1, cleartext and TLS", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const plain = await sluice(t);
  const secure = await sluice(t, {
    SVC_AGENT_SERVER_TLS_ENABLED: "true",
    SVC_AGENT_SERVER_TLS_CERT_FILE: certFile,
    SVC_AGENT_SERVER_TLS_KEY_FILE: keyFile,
  });
  const ways = [
    ["2", [`http://${plain.address}`, "--http2-prior-knowledge"]],
    ["1.1", [`http://${plain.address}`, "--http1.1"]],
    ["2", [`https://${secure.address}`, "--http2", "--insecure"]],
    ["1.1", [`https://${secure.address}`, "--http1.1", "--insecure"]],
  ] as const;
  // Longer than the initial window and the maximum frame size.
  const long = join(folderOf(t), "long");
  const headers = { "x-user": "bob", "x-long": "x".repeat(900_000) };
  writeFileSync(
    long,
    JSON.stringify({ control_point: "ingress", request: { method: "GET", headers } }),
  );
  const written = "\n%{http_version} %{http_code} %header{content-type}";
  for (const [version, [url, ...args]] of ways) {
    const ask = (path: string, ...more: readonly string[]) =>
      outputOf(t, curl(), [
        "--silent",
        "--show-error",
        "--write-out",
        written,
        ...args,
        ...more,
        url + path,
      ]);
    const type = ["--header", "content-type: application/json"];
    const [reply = "", summary] = (await ask(JSON_CHECK, ...type, "--data", CHECK_HTTP)).split(
      "\n",
    );
    assert.equal(summary, `${version} 200 application/json`);
    assert.equal(JSON.parse(reply).check_response.decision_type, "DECISION_TYPE_ACCEPTED");
    for (const path of ["/", "/healthz"])
      assert.match(await ask(path), new RegExp(`\n${version} 200 `));
    assert.match(await ask("/nowhere"), new RegExp(`\n${version} 404 application/json$`));
    assert.match(await ask(JSON_CHECK), new RegExp(`\n${version} 405 application/json$`));
    const more = await ask(JSON_CHECK, ...type, "--data", `@${long}`);
    assert.match(more, new RegExp(`\n${version} 200 application/json$`));
    assert.match(await ask("/metrics"), new RegExp(`\n${version} 200 text/plain`));
  }
  assert.deepEqual(Object.keys(await decisions(plain.address)), ["DECISION_TYPE_ACCEPTED"]);
});

test("grpc-js and Python: a check returns its decision and decision id", async (t) => {
  const { address } = await sluice(t);
  const metadata = { "control-point": "ingress" };
  const js = await grpcClient(t, address).unary(`/${CHECK}`, MESSAGE, { metadata });
  assert.equal(js.code, 0, js.details);
  const { outcomes } = python(t, address, {
    check: {
      path: `/${CHECK}`,
      sides: "unary_unary",
      messages: [MESSAGE],
      metadata: Object.entries(metadata),
    },
  });
  const { check } = await outcomes;
  assert.equal(check.code, 0, check.details);
  const ids = [js.metadata[DECISION_ID], check.initial.get(DECISION_ID)];
  for (const id of ids) assert.match(String(id), /^\S+$/);
  assert.notEqual(ids[0], ids[1]);
  for (const message of [js.message, check.messages[0]]) {
    const reply = fromBinary(CheckResponseSchema, message ?? new Uint8Array());
    assert.ok("aperture.check_response" in (reply.dynamicMetadata ?? {}));
  }
  assert.deepEqual(await decisions(address), { DECISION_TYPE_ACCEPTED: 2 });
});
