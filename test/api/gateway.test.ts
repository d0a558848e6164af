import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DECISION_ID } from "#api/door.ts";
import { forwardTo, gatewayRoutes } from "#api/gateway.ts";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#serve/handler.ts";
import { GrpcClient } from "#wire/grpc-client.ts";
import { fakeClock } from "../kit/clock.ts";
import { agentOf, callOf, doorsOf, handlerOf, post } from "./agent.ts";

/** The JSON routes twice: answered in process, and through the binary doors of the same agent. */
function both() {
  const doors = doorsOf(agentOf([]).mind);
  const forward = async (method: string, message: Uint8Array, call: Call) => {
    const [, service = "", name = ""] = method.split("/");
    return await handlerOf(doors.services, service, name)(message, call);
  };
  return { direct: doors.routes, forwarded: gatewayRoutes(forward, seededChance(1)) };
}

describe("JSON routes that forward", () => {
  it("answer as those in process", async () => {
    const { direct, forwarded } = both();
    const ref = { policy_name: "p", request_id: "r", tokens: 1.5 };
    const asked = [
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
          control_point: "cp",
          labels: { a: "1" },
          expect_end: true,
          cache_lookup_request: { result_cache_key: "k" },
        },
      ],
      ["flowend", { control_point: "cp", inflight_requests: [ref, {}] }],
    ] as const;
    for (const [name, body] of asked) {
      const path = `/v1/flowcontrol/${name}`;
      const [near, far] = await Promise.all([
        post(direct, path, body),
        post(forwarded, path, body),
      ]);
      assert.equal(far.status, 200);
      assert.deepEqual(JSON.parse(String(far.body)), JSON.parse(String(near.body)));
    }
  });

  it("refuse what those in process refuse, here and there", async () => {
    const { forwarded } = both();
    const ask = (body: unknown) => post(forwarded, "/v1/flowcontrol/checkhttp", body);
    await assert.rejects(ask('{"a":1,"a":2}'), { code: "INVALID_ARGUMENT" });
    await assert.rejects(ask({}), { message: "missing control-point" });
    const socket = { address: "a", port: 70_000 };
    await assert.rejects(ask({ control_point: "cp", source: socket }), { http: 400 });
  });
});

describe("forwarding over gRPC", () => {
  /** A server that has one method, in the reference library. */
  async function serving(
    handle: (message: Buffer) => Buffer | Fault | "never",
    run: (client: GrpcClient) => Promise<void>,
  ) {
    const grpc = await import("@grpc/grpc-js");
    const server = new grpc.Server();
    const path = "/test.Echo/Ask";
    const raw = (bytes: Buffer) => bytes;
    const method = {
      path,
      ...{ requestStream: false, responseStream: false },
      ...{ requestSerialize: raw, requestDeserialize: raw },
      ...{ responseSerialize: raw, responseDeserialize: raw },
    };
    const ask: import("@grpc/grpc-js").handleUnaryCall<Buffer, Buffer> = (call, answer) => {
      const reply = handle(call.request);
      if (reply === "never") return;
      const headers = new grpc.Metadata();
      headers.set(DECISION_ID, "id-1");
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

  it("carries bytes there and back, with the decision's id", async () => {
    await serving(
      (message) => Buffer.concat([message, message]),
      async (client) => {
        const call = callOf();
        const reply = await forwardTo(client, fakeClock())(
          "/test.Echo/Ask",
          Buffer.from("ab"),
          call,
        );
        assert.equal(Buffer.from(reply).toString(), "abab");
        assert.equal(call.replied.get(DECISION_ID), "id-1");
      },
    );
  });

  it("brings the server's refusals as they are", async () => {
    await serving(
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
    await serving(
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

  it("says that nobody is there, and not more", async () => {
    const client = new GrpcClient({ address: "127.0.0.1:1" });
    const ask = client.call("/test.Echo/Ask", Buffer.from(""), { timeoutMs: Infinity });
    await assert.rejects(ask, (thrown) => {
      assert.ok(thrown instanceof Fault);
      assert.equal(thrown.code, "UNAVAILABLE");
      assert.ok(!thrown.message.includes("127.0.0.1"));
      return true;
    });
    await client.close();
  });
});
