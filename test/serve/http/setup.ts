// A port with JSON routes for tests, asked over both versions of HTTP.

import assert from "node:assert/strict";
import { connect, constants } from "node:http2";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { HttpReply, Route } from "#base/handler.ts";
import { arrived } from "../../kit/attack/server-end.ts";
import { type ClientReply, http1, http2 } from "../../kit/clients/http.ts";
import {
  dial,
  memoryMeter,
  type Overrides,
  realClock,
  type TestPort,
  testPort,
} from "../../kit/sluice/port.ts";

export const text = (body: string, status = 200): HttpReply => ({
  status,
  headers: { "content-type": "text/plain" },
  body,
});

export const route = (over: Partial<Route> & Pick<Route, "path">): Route => ({
  method: "GET",
  about: "",
  handle: () => text("here"),
  ...over,
});

export const post = route({
  method: "POST",
  path: "/check",
  body: "json",
  maxBody: 1_000,
  handle: ({ body }) => text(String(body.length)),
});

/** A route whose handler waits until it is released. */
export function heldRoute(path: string, body: string, more: Partial<Route> = {}) {
  const begun = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const handle = () => {
    begun.resolve();
    return released.promise.then(() => text(body));
  };
  return {
    route: route({ path, handle, ...more }),
    begun: begun.promise,
    release: released.resolve,
  };
}

/**
 * For each HTTP version: its client, a way to cancel a request, and the size of a large body. Node's HTTP/2 client
 * loses a reply that arrives together with RST_STREAM NO_ERROR (RFC 9113 §8.1), so that its large body must be small
 * enough to be sent before the reply.
 */
export const VERSIONS = [
  { name: "HTTP/1.1", client: http1, cancel: cancelHttp1, largeBody: 8_000_000 },
  { name: "HTTP/2", client: http2, cancel: cancelHttp2, largeBody: 200_000 },
] as const;

export type Version = (typeof VERSIONS)[number];

export async function openTestPort(
  t: TestContext,
  routes: readonly Route[],
  http: Overrides["http"] = {},
  version: Version = VERSIONS[0],
  clock: Clock = realClock,
) {
  const { meter, http: counted } = memoryMeter();
  const settings = { http, grpc: { transport: "own" } } as const;
  const port = await testPort(t, { routes, settings, meter, clock });
  const url = `http://${port.address}`;
  return { port, counted, url, ask: version.client(t, url) };
}

/** Opens a port for a test, with a client of the version under test. */
export type Serve = (
  routes: readonly Route[],
  http?: Overrides["http"],
  clock?: Clock,
) => ReturnType<typeof openTestPort>;

/** Runs the same test over HTTP/1.1 and over HTTP/2. */
export function overBothVersions(
  title: string,
  run: (t: TestContext, serve: Serve, version: Version) => Promise<void>,
): void {
  for (const version of VERSIONS) {
    test(`${title} (${version.name})`, (t) =>
      run(t, (routes, http, clock) => openTestPort(t, routes, http, version, clock), version));
  }
}

/** Begins a request (with the first byte of its body if it has one) and returns a function that cancels it. */
export async function cancelHttp1(t: TestContext, port: TestPort, path: string, length = 0) {
  const socket = dial(t, port);
  socket.write(
    length === 0
      ? `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
      : `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\nx`,
  );
  await arrived(socket);
  return () => void socket.destroy();
}

export async function cancelHttp2(t: TestContext, port: TestPort, path: string, length = 0) {
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const stream = session.request({ ":path": path, ":method": length === 0 ? "GET" : "POST" });
  stream.on("error", () => undefined);
  if (length > 0) {
    await new Promise((written) => stream.write("x", written));
    await new Promise((answered) => session.ping(answered));
  }
  // With a body, stream.close() would first end the body.
  return () => (length > 0 ? session.destroy() : stream.close(constants.NGHTTP2_CANCEL));
}

export const JSON_TYPE = { "content-type": "application/json" };

export function refusal(reply: ClientReply): [status: number, code: number, message: string] {
  assert.equal(reply.headers["content-type"], "application/json");
  const body = JSON.parse(reply.body) as { code: number; message: string; details: unknown };
  assert.deepEqual(Object.keys(body), ["code", "message", "details"]);
  assert.deepEqual(body.details, []);
  return [reply.status, body.code, body.message];
}

/** The same as `refusal`, from the raw text of a reply. */
export function rawRefusal(reply: string): [status: number, code: number] {
  const [, status, body = ""] = /^HTTP\/1\.1 (\d{3}) .*?\r\n\r\n(.*)$/s.exec(reply) ?? [];
  assert.ok(status !== undefined, `not an HTTP error reply: ${reply}`);
  return [Number(status), (JSON.parse(body) as { code: number }).code];
}
