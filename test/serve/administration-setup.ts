// Shared by the tests of access to administration: a port with a route and a method of each kind of access, and clients.

import type { TestContext } from "node:test";
import type { Access, GrpcService, Route } from "#base/handler.ts";
import { type Administration, openAdministration } from "#serve/administration.ts";
import type { AdministrationSettings } from "#serve/settings.ts";
import { type ClientReply, http1, http2, type RequestOptions } from "../kit/clients/http.ts";
import { type MemoryLog, memoryLog } from "../kit/sluice/log.ts";
import {
  type Overrides,
  portSettings,
  realClock,
  type TestPort,
  testPort,
} from "../kit/sluice/port.ts";

export const TOKEN = "correct-horse-battery-staple";
export const JSON_TYPE = { "content-type": "application/json" };

export const NOTHING: AdministrationSettings = {
  token: "",
  token_path: "",
  allowed_hosts: [],
  insecure: false,
};

export interface Opened {
  readonly port: TestPort;
  readonly administration: Administration;
  /** Bodies that reached the handler of the administration route. */
  readonly written: string[];
  readonly lines: MemoryLog["lines"];
}

/** A port with a route and a method of each kind of access; `undefined` stands for none stated. */
export async function open(
  t: TestContext,
  given: Partial<AdministrationSettings> = {},
  settings: Overrides = {},
  clock = realClock,
): Promise<Opened> {
  const written: string[] = [];
  const route = (path: string, access: Access | undefined): Route => ({
    method: "POST",
    path,
    about: "",
    ...(access !== undefined && { access }),
    body: "json",
    handle({ body }) {
      written.push(String(body));
      return { status: 200, headers: {}, body: path };
    },
  });
  const service = (name: string, access: Access | undefined): GrpcService => ({
    name: `test.${name}`,
    ...(access !== undefined && { access }),
    methods: {
      Say: { kind: "unary", handle: (message) => message },
      Stream: {
        kind: "stream",
        client: true,
        server: true,
        handle: async ({ send }) => send(Buffer.from("said")),
      },
    },
  });
  const { listener, tls } = portSettings(settings);
  const log = memoryLog();
  const administration = await openAdministration({
    settings: { ...NOTHING, ...given },
    listener,
    tls,
    clock,
    log,
  });
  t.after(administration.close);
  const port = await testPort(t, {
    routes: [
      route("/administration", "administration"),
      route("/unstated", undefined),
      route("/data", "data"),
      route("/open", "open"),
    ],
    services: [
      service("Administration", "administration"),
      service("Unstated", undefined),
      service("Data", "data"),
      service("Open", "open"),
    ],
    accessControl: administration,
    settings,
  });
  return { port, administration, written, lines: log.lines };
}

export type Ask = (path: string, headers?: RequestOptions["headers"]) => Promise<ClientReply>;

export function over1(t: TestContext, { port }: TestPort, host = "127.0.0.1"): Ask {
  const client = http1(t, `http://${host}:${port}`);
  return (path, headers = JSON_TYPE) => client({ method: "POST", path, headers, body: "{}" });
}

export function over2(t: TestContext, { port }: TestPort): Ask {
  const client = http2(t, `http://127.0.0.1:${port}`);
  return (path, headers = JSON_TYPE) => client({ method: "POST", path, headers, body: "{}" });
}

export const ALL = ["/administration", "/unstated", "/data", "/open"];

export async function statuses(ask: Ask, headers?: RequestOptions["headers"]): Promise<number[]> {
  return Promise.all(ALL.map(async (path) => (await ask(path, headers)).status));
}
