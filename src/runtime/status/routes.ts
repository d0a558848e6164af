// The HTTP routes that show the health, status and version of a process.

import type { HttpReply, Route } from "#base/handler.ts";
import type { Info } from "./info.ts";
import type { StatusNode } from "./status.ts";

/** `serving` tells whether the process serves; no connection is opened to find out. */
export function healthRoute(serving: () => boolean): Route {
  return {
    method: "GET",
    path: "/healthz",
    about: "200 while the port serves, 503 before and while it drains.",
    access: "open",
    handle: () =>
      serving() ? json(200, { status: "SERVING" }) : json(503, { status: "NOT_SERVING" }),
  };
}

/** The whole answer of a port that exists for health: whether the process is alive and ready. */
export function probeRoute(healthy: () => boolean): Route {
  return {
    ...healthRoute(healthy),
    path: "/",
    about: "200 while the process is alive and ready, 503 otherwise.",
  };
}

/** The nodes that probes of orchestrators ask for, which have no credential. */
const PROBES = [
  {
    path: "system/liveness",
    about: "For liveness probes: 503 when the process should be restarted.",
  },
  {
    path: "system/readiness",
    about: "For readiness probes: 503 while the process takes no traffic.",
  },
] as const;

/** The status tree. The root always answers 200: it is for people, not for probes. */
export function statusRoutes(root: StatusNode): readonly Route[] {
  const about = "Status of the node at key/value/…; 503 when it or one below it has an error.";
  const whole = "Status of everything; always 200.";
  const node = (path: string): HttpReply => {
    const found = root.find(path);
    if (found === undefined) return json(404, { status: null, groups: {} });
    return json(path !== "" && found.firstError() !== undefined ? 503 : 200, found.view());
  };
  return [
    // Only the whole tree is costly. Probes query single nodes, and must be answered however busy the port is.
    { ...get("/v1/status", whole, () => json(200, root.view())), costly: true },
    get("/v1/status/{path...}", about, ({ params }) =>
      node((params["path"] ?? "").replace(/^\/+|\/+$/g, "")),
    ),
    ...PROBES.map(({ path, about }): Route => {
      const handle = () => node(path);
      return { ...get(`/v1/status/${path}`, about, handle), access: "open" };
    }),
  ];
}

export function infoRoutes(info: Info): readonly Route[] {
  return [
    get("/v1/info/version", "Version and build facts.", () => json(200, info.version())),
    get("/v1/info/process", "Start time and uptime.", () => json(200, info.process())),
    get("/v1/info/host", "Host name, address and the id of this process.", () =>
      json(200, info.host()),
    ),
  ];
}

function get(path: string, about: string, handle: Route["handle"]): Route {
  return { method: "GET", path, about, access: "administration", handle };
}

function json(status: number, body: object): HttpReply {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
