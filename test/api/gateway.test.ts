import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DECISION_ID_HEADER, SHED_HEADER } from "#api/context.ts";
import { forwardTo } from "#api/gateway.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";
import { GrpcClient } from "#client/grpc.ts";
import {
  agentOf,
  callOf,
  endpointsOf,
  forwardedRoutes,
  handlerOf,
  post,
} from "../kit/api/agent.ts";
import { RULES } from "../kit/api/corpus.ts";
import { fakeClock } from "../kit/clock.ts";

/** The JSON routes of two equal agents: one answers in process, one forwards to its gRPC services. */
function directAndForwarded() {
  const { flowController } = agentOf(RULES);
  const far = endpointsOf(flowController);
  const forward = async (method: string, message: Uint8Array, call: Call) => {
    const [, service = "", name = ""] = method.split("/");
    return await handlerOf(far.services, service, name)(message, call);
  };
  return {
    direct: endpointsOf(agentOf(RULES).flowController).routes,
    forwarded: forwardedRoutes(forward, flowController),
  };
}

/** A CheckHTTP request at the control point that has rules. */
const described = (headers: unknown, over: object = {}) =>
  ["checkhttp", { control_point: "here", request: { method: "GET", headers }, ...over }] as const;

describe("JSON routes that forward", () => {
  it("answer like routes in process, whatever a limiter, a sampler or a classifier reads", async () => {
    const { direct, forwarded } = directAndForwarded();
    const ref = { policy_name: "p", request_id: "r", tokens: 1.5 };
    const repeated = { "user-id": ["ann", "bob"], "x-kind": ["gold", "tin"], stage: "beta" };
    const asked = [
      described(repeated),
      described({ "user-id": ["ann"], tokens: ["2"] }),
      described({ "user-id": "ann", "User-Id": ["bob", "eve"], user_id: "dash first" }),
      described({ "user-id": "bob", tokens: ["1", "2"] }),
      described({ "user-id": [], stage: ["beta", "beta"], "x-kind": ["", ""] }),
      described(repeated, { ramp_mode: true }),
      described(repeated),
      described({ ...repeated, baggage: ["a=1", "b=2"] }, { expect_end: true }),
      [
        "checkhttp",
        {
          control_point: "cp",
          request: { method: "GET", size: "-1", headers: { "X-A": ["1", "2"] } },
        },
      ],
      [
        "checkhttp",
        {
          control_point: "cp",
          source: { address: "a", port: "80", protocol: "UDP" },
          ramp_mode: true,
        },
      ],
      [
        "check",
        {
          control_point: "here",
          labels: { a: "1", kind: "gold", "http.request.header.user_id": "ann" },
          expect_end: true,
          cache_lookup_request: { result_cache_key: "k" },
        },
      ],
      ["flowend", { control_point: "cp", inflight_requests: [ref, {}] }],
    ] as const;
    const keys = new Set<unknown>();
    for (const [name, body] of asked) {
      const path = `/v1/flowcontrol/${name}`;
      const near = await post(direct, path, body);
      const far = await post(forwarded, path, body);
      assert.equal(far.status, 200);
      const wanted = JSON.parse(String(near.body));
      assert.deepEqual(JSON.parse(String(far.body)), wanted);
      for (const decision of wanted.check_response?.limiter_decisions ?? []) {
        keys.add(decision.rate_limiter_info?.label);
      }
    }
    assert.ok(keys.has("http.request.header.user_id:ann,bob"), "repeated headers are one key");
    assert.ok(keys.has("kind:gold-tin"));
  });

  it("refuse what routes in process refuse, whether the gateway or the server notices it", async () => {
    const { forwarded } = directAndForwarded();
    const ask = (body: unknown) => post(forwarded, "/v1/flowcontrol/checkhttp", body);
    await assert.rejects(ask('{"a":1,"a":2}'), { code: "INVALID_ARGUMENT" });
    await assert.rejects(ask({}), { message: "missing control-point" });
    const socket = { address: "a", port: 70_000 };
    await assert.rejects(ask({ control_point: "cp", source: socket }), { http: 400 });
  });
});

describe("forwarding over gRPC", () => {
  /** Runs a grpc-js server with one method while `run` uses a client of it. */
  async function withServer(
    handle: (message: Buffer) => Buffer | Fault | "never",
    run: (client: GrpcClient) => Promise<void>,
  ) {
    const grpc = await import("@grpc/grpc-js");
    const server = new grpc.Server();
    const path = "/test.Echo/Ask";
    const raw = (bytes: Buffer) => bytes;
    const method = {
      path,
      requestStream: false,
      responseStream: false,
      requestSerialize: raw,
      requestDeserialize: raw,
      responseSerialize: raw,
      responseDeserialize: raw,
    };
    const ask: import("@grpc/grpc-js").handleUnaryCall<Buffer, Buffer> = (call, answer) => {
      const reply = handle(call.request);
      if (reply === "never") return;
      const headers = new grpc.Metadata();
      headers.set(DECISION_ID_HEADER, "id-1");
      headers.set(SHED_HEADER, "delay");
      call.sendMetadata(headers);
      if (reply instanceof Fault) answer({ code: grpc.status[reply.code], details: reply.message });
      else answer(null, reply);
    };
    server.addService({ ask: method }, { ask });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      ),
    );
    const client = new GrpcClient({ address: `127.0.0.1:${port}` });
    try {
      await run(client);
    } finally {
      await client.close();
      server.forceShutdown();
    }
  }

  it("passes requests and replies on, with the decision's id and whether the flow was shed", async () => {
    await withServer(
      (message) => Buffer.concat([message, message]),
      async (client) => {
        const call = callOf();
        const reply = await forwardTo(client, fakeClock())(
          "/test.Echo/Ask",
          Buffer.from("ab"),
          call,
        );
        assert.equal(Buffer.from(reply).toString(), "abab");
        assert.equal(call.replied.get(DECISION_ID_HEADER), "id-1");
        assert.equal(call.replied.get(SHED_HEADER), "delay");
      },
    );
  });

  it("passes the server's errors on unchanged", async () => {
    await withServer(
      () => new Fault("RESOURCE_EXHAUSTED", "too many"),
      async (client) => {
        const ask = client.call("/test.Echo/Ask", Buffer.from(""), { timeoutMs: Infinity });
        await assert.rejects(ask, { code: "RESOURCE_EXHAUSTED", message: "too many" });
        const none = client.call("/test.Echo/None", Buffer.from(""), { timeoutMs: Infinity });
        await assert.rejects(none, { code: "UNIMPLEMENTED" });
      },
    );
  });

  it("ends with the deadline, and when the caller leaves", async () => {
    await withServer(
      () => "never",
      async (client) => {
        const late = client.call("/test.Echo/Ask", Buffer.from(""), { timeoutMs: 30 });
        await assert.rejects(late, { code: "DEADLINE_EXCEEDED", http: 504 });
        const call = callOf();
        const gone = forwardTo(client, fakeClock())("/test.Echo/Ask", Buffer.from(""), call);
        setImmediate(() => call.leave());
        await assert.rejects(gone, { code: "CANCELLED" });
        const before = forwardTo(client, fakeClock())("/test.Echo/Ask", Buffer.from(""), call);
        await assert.rejects(before, { code: "CANCELLED" });
      },
    );
  });

  it("reports an unreachable server without naming its address", async () => {
    const client = new GrpcClient({ address: "127.0.0.1:1" });
    const ask = forwardTo(client, fakeClock())("/test.Echo/Ask", Buffer.from(""), callOf());
    const message = "the gRPC server behind this route is unavailable";
    await assert.rejects(ask, { code: "UNAVAILABLE", message });
    await client.close();
  });
});
