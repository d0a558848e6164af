// The routes by which a process shows itself: health, status and info. Plain data that fits a port's route table.

import type { Fault } from "#base/fault.ts";
import type { Info } from "./info.ts";
import type { StatusNode } from "./status.ts";

/** As much of a request as these routes read. */
export interface RouteRequest {
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>;
}

export interface RouteCall {
  /** Aborted when the caller goes away. */
  signal(): AbortSignal;
}

export interface RouteReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

/** One row of a route table; its fields mean what they mean there. Handlers throw {@link Fault}. */
export interface HttpRoute {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly about: string;
  readonly stream?: boolean;
  readonly revealing?: boolean;
  readonly costly?: boolean;
  handle(request: RouteRequest, call: RouteCall): RouteReply | Promise<RouteReply>;
}

/** `serving` is what the port's own health says: nothing is dialled to find out. */
export function healthRoute(serving: () => boolean): HttpRoute {
  return {
    method: "GET",
    path: "/healthz",
    about: "200 while the port serves, 503 before and while it drains.",
    handle: () =>
      serving() ? json(200, { status: "SERVING" }) : json(503, { status: "NOT_SERVING" }),
  };
}

/** The status tree. The bare root is 200 whatever it holds: it is for people, not for probes. */
export function statusRoutes(root: StatusNode): readonly HttpRoute[] {
  const about = "Status of the node at key/value/…; 503 when it or one below it has an error.";
  const whole = "Status of everything; always 200.";
  return [
    // Not those below it: probes ask them, and are to be answered whoever else asks.
    { ...get("/v1/status", whole, () => json(200, root.view())), costly: true },
    get("/v1/status/{path...}", about, ({ params }) => {
      const path = (params["path"] ?? "").replace(/^\/+|\/+$/g, "");
      const node = root.find(path);
      if (node === undefined) return json(404, { status: null, groups: {} });
      return json(path !== "" && node.trouble() !== undefined ? 503 : 200, node.view());
    }),
  ];
}

export function infoRoutes(info: Info): readonly HttpRoute[] {
  return [
    get("/v1/info/version", "Version and build facts.", () => json(200, info.version())),
    get("/v1/info/process", "Start time and uptime.", () => json(200, info.process())),
    get("/v1/info/host", "Host name, address and the id of this process.", () =>
      json(200, info.host()),
    ),
  ];
}

function get(path: string, about: string, handle: HttpRoute["handle"]): HttpRoute {
  return { method: "GET", path, about, revealing: true, handle };
}

function json(status: number, body: object): RouteReply {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
