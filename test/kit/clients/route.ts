// Calls the handler of an HTTP route directly, without a port.

import type { Call, HttpReply, Route } from "#base/handler.ts";

export interface RouteRequest {
  readonly query?: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export async function callRoute(
  { method, path, handle }: Route,
  { query = "", params = {}, headers = {}, signal }: RouteRequest = {},
): Promise<HttpReply> {
  const call: Call = {
    method: path,
    deadline: Number.POSITIVE_INFINITY,
    peer: "127.0.0.1",
    header: (name) => headers[name],
    signal: () => signal ?? new AbortController().signal,
    whenCallerLeaves: (left) => signal?.addEventListener("abort", left),
    releaseIfUndelivered: () => undefined,
    reply: () => undefined,
    trailer: () => undefined,
  };
  const request = { query: new URLSearchParams(query), body: new Uint8Array() };
  return handle({ method, path, params, headers, ...request }, call);
}
