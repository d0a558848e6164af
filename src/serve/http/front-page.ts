// `GET /`: a short page that lists the routes and services of this port.

import type { GrpcService, Route } from "#base/handler.ts";

export function frontPage(routes: readonly Route[], services: readonly GrpcService[]): Route {
  const shown = routes.map(({ method, path }) => `${method.padEnd(6)} ${path}`);
  const width = Math.max(0, ...shown.map(({ length }) => length));
  const lines = [
    "Sluice: decides whether a request may pass.",
    "",
    "HTTP",
    ...routes.map(({ about }, at) => `  ${(shown[at] ?? "").padEnd(width)}  ${about}`),
    "",
    "gRPC",
    ...services.map(({ name }) => `  ${name}`),
    "",
  ];
  const reply = {
    status: 200,
    headers: { "content-type": "text/plain; charset=utf-8" },
    body: lines.join("\n"),
  };
  return {
    method: "GET",
    path: "/",
    about: "This page",
    access: "open",
    body: "none",
    handle: () => reply,
  };
}
