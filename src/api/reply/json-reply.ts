// The HTTP reply of all JSON routes, and the routes and services of administration. Decisions have status 200, refusals
// included; errors are thrown as Faults.

import type { GrpcService, HttpHandler, HttpReply, Route, UnaryHandler } from "#base/handler.ts";

const JSON_HEADERS: Readonly<Record<string, string>> = { "content-type": "application/json" };

export function jsonReply(body: string | Uint8Array): HttpReply {
  return { status: 200, headers: JSON_HEADERS, body };
}

/** A route of administration that shows something as JSON. */
export function viewRoute(
  path: string,
  about: string,
  view: (...of: Parameters<HttpHandler>) => unknown,
  { costly = true }: { readonly costly?: boolean } = {},
): Route {
  const handle: HttpHandler = (request, call) => {
    const shown = view(request, call);
    const reply = (value: unknown) => jsonReply(JSON.stringify(value));
    return shown instanceof Promise ? shown.then(reply) : reply(shown);
  };
  return { method: "GET", path, about, access: "administration", costly, handle };
}

/** A gRPC service of administration, all of whose methods are unary. */
export function administrationService(
  name: string,
  methods: Readonly<Record<string, UnaryHandler>>,
): GrpcService {
  const rows = Object.entries(methods).map(
    ([rpc, handle]) => [rpc, { kind: "unary", handle }] as const,
  );
  return { name, access: "administration", methods: Object.fromEntries(rows) };
}
