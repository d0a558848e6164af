// Shared by tests of limits with a real Envoy: a bootstrap with the gRPC access log whose own limits are far away, and a
// client whose requests can be cancelled.

import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import type { TestContext } from "node:test";
import { AT, type Bootstrap } from "../kit/servers/bootstrap.ts";
import type { Envoy } from "../kit/servers/envoy.ts";

/** The route of requests that only read. */
export const ROUTE = [...AT.routes, 1, "route"];

export function limitsFarAway(bootstrap: Bootstrap): void {
  bootstrap.accessLogOf("access-log-grpc.yaml");
  // The client speaks HTTP/2, the services do not.
  bootstrap.serviceSpeaksHttp1();
  bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "20s");
  bootstrap.set([...ROUTE, "timeout"], "300s");
  // What is sent once more may reach the service before that has seen the end of the first one.
  bootstrap.set([...ROUTE, "retry_policy"], { retry_on: "reset-before-request" });
  // By default Envoy makes at most 1 024 calls of each cluster at once.
  const thresholds = [{ max_requests: 10_000, max_pending_requests: 10_000 }];
  for (const cluster of [0, 1])
    bootstrap.set(["static_resources", "clusters", cluster, "circuit_breakers"], { thresholds });
}

export interface Reply {
  /** 0 without a response. */
  readonly status: number;
  /** The body is as long as announced. */
  readonly whole: boolean;
}

/** A client with so many HTTP/2 connections. */
export function clientOf(t: TestContext, { url }: Envoy, connections: number) {
  const sessions = Array.from({ length: connections }, () => connectHttp2(url));
  for (const session of sessions) {
    session.on("error", () => undefined);
    t.after(() => session.destroy());
  }
  let next = 0;
  /** Sends a request of a tier, and cancels it when `leave` resolves. */
  return (
    path: string,
    id: string,
    { leave, tier = "none" }: { leave?: Promise<void> | undefined; tier?: string } = {},
  ): Promise<Reply> => {
    const fields = { ":path": path, "x-id": id, "x-tier": tier };
    const stream = sessions[next++ % connections]?.request(fields);
    assert.ok(stream !== undefined);
    const { promise, resolve } = Promise.withResolvers<Reply>();
    let status = 0;
    stream.on("response", (headers) => {
      status = Number(headers[":status"]);
    });
    stream.resume();
    stream.on("error", () => undefined);
    stream.on("close", () => resolve({ status, whole: stream.rstCode === 0 }));
    void leave?.then(() => stream.close(8));
    return promise;
  };
}
