// An API server whose list and events a test writes itself, to see what happens when they come late, broken or not at all.

import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Clock } from "#base/clock.ts";
import { KubeClient, type KubeClientOptions } from "#kube/api/client.ts";
import { fixedToken } from "#kube/api/credentials.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";
import { clientSettings, NO_PROXY } from "../../prometheus/kit.ts";
import { folderOf } from "../folder.ts";
import { realClock } from "../sluice/port.ts";

export const THINGS: Resource = { group: "example.com", version: "v1", plural: "things" };

/** A request to list or watch, and the means to answer it. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  reply(status: number, body: unknown, headers?: Readonly<Record<string, string>>): void;
}

/** A watch that is open. */
export interface Watching {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly isOpen: () => boolean;
  /** Sends bytes as they are. */
  raw(text: string): void;
  send(type: string, object: unknown): void;
  /** Ends it in order, or cuts the connection. */
  end(how?: "cut"): void;
}

export interface FakeApi {
  readonly url: string;
  readonly asked: readonly Asked[];
  readonly watches: readonly Watching[];
  /** The objects of a list. */
  items: readonly KubeObject[];
  resourceVersion: string;
  /** Objects of a page, when the client wants as many or more. */
  pageSize: number;
  /** Called when a watch begins: a real server sends what happened since its version. */
  began: (watch: Watching) => void;
  /** Answers in place of the server where it returns true. */
  before: (asked: Asked) => boolean;
  /** True if connections are cut as soon as they are made; setting it cuts those that are open. */
  away: boolean;
}

export function thing(name: string, resourceVersion: string, more: object = {}): KubeObject {
  const metadata = { name, namespace: "a", uid: `uid-${name}`, resourceVersion };
  return { apiVersion: "example.com/v1", kind: "Thing", metadata, ...more };
}

/** Runs until the test ends. */
export async function fakeApi(t: TestContext): Promise<FakeApi> {
  const asked: Asked[] = [];
  const watches: Watching[] = [];
  const sockets = new Set<Socket>();
  let away = false;
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (part: string) => {
      body += part;
    });
    request.on("end", () => {
      const { pathname, searchParams: query } = new URL(request.url ?? "", "http://api");
      const { method = "", headers } = request;
      const each = { method, path: pathname, query, headers, body, reply: replyBy(response) };
      asked.push(each);
      if (api.before(each)) return;
      if (query.get("watch") === "true") {
        const watch = watching(pathname, query, response);
        watches.push(watch);
        api.began(watch);
      } else list(each, api);
    });
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    if (away) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    cut();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const api: FakeApi = {
    url: `http://127.0.0.1:${port}`,
    asked,
    watches,
    items: [],
    resourceVersion: "1",
    pageSize: Number.POSITIVE_INFINITY,
    began: () => undefined,
    before: () => false,
    get away() {
      return away;
    },
    set away(now) {
      away = now;
      if (away) cut();
    },
  };
  return api;
}

/** A client of such a server, closed when the test ends. */
export function clientOf(
  t: TestContext,
  { url }: Pick<FakeApi, "url">,
  {
    clock = realClock,
    ...over
  }: Partial<KubeClientOptions["access"]> & { readonly clock?: Clock } = {},
): KubeClient {
  const client = new KubeClient({
    access: {
      url,
      namespace: "a",
      credentials: fixedToken("secret"),
      files: { ca_file: "", cert_file: "", key_file: "" },
      material: {},
      insecure: false,
      ...over,
    },
    // A clock that a test moves must not end calls that are under way.
    settings: clientSettings({ timeout: 0 }),
    proxy: NO_PROXY,
    env: {},
    clock,
  });
  t.after(() => client.close());
  return client;
}

/** The environment of a process that runs in the namespace `shop` of such a server. */
export function accessTo(
  t: TestContext,
  { url }: Pick<FakeApi, "url">,
): Readonly<Record<string, string>> {
  const context = { cluster: "c", user: "u", namespace: "shop" };
  const config = {
    clusters: [{ name: "c", cluster: { server: url } }],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "x", context }],
    "current-context": "x",
  };
  const file = join(folderOf(t), "kubeconfig");
  writeFileSync(file, JSON.stringify(config));
  return { KUBECONFIG: file };
}

function replyBy(response: ServerResponse): Asked["reply"] {
  return (status, body, headers = {}) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
}

function list({ query, reply }: Asked, { items, resourceVersion, pageSize }: FakeApi): void {
  const size = Math.min(pageSize, Number(query.get("limit") ?? Number.POSITIVE_INFINITY));
  const from = Number(query.get("continue") ?? 0);
  const more = from + size < items.length ? { continue: String(from + size) } : {};
  reply(200, {
    kind: "ThingList",
    apiVersion: "example.com/v1",
    metadata: { resourceVersion, ...more },
    items: items.slice(from, from + size),
  });
}

function watching(path: string, query: URLSearchParams, response: ServerResponse): Watching {
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  let isOpen = true;
  response.on("close", () => {
    isOpen = false;
  });
  const raw = (text: string) => void response.write(text);
  return {
    path,
    query,
    isOpen: () => isOpen,
    raw,
    send: (type, object) => raw(`${JSON.stringify({ type, object })}\n`),
    end: (how) => void (how === "cut" ? response.destroy() : response.end()),
  };
}
