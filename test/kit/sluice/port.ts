// Opens ports of `serve` for tests, on free ports, with a log and a meter that keep what they receive.

import { connect, type Socket } from "node:net";
import type { TestContext } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { Code } from "#base/fault.ts";
import type {
  CertificateSeconds,
  Http2Fault,
  RefusedConnection,
  ServerMeter,
} from "#base/server-meter.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { realClock as hostClock } from "#runtime/life/clock.ts";
import { NO_ACCESS_CONTROL } from "#serve/administration.ts";
import { openPort, type Port, type PortOptions } from "#serve/port.ts";
import type { PortSettings } from "#serve/settings.ts";
import { type MemoryLog, memoryLog } from "./log.ts";

export const realClock: Clock = hostClock();

export type Overrides = { readonly [Key in keyof PortSettings]?: Partial<PortSettings[Key]> };

export function portSettings(over: Overrides = {}): PortSettings {
  return {
    listener: { addr: "127.0.0.1:0", network: "tcp", keep_alive: 180_000, ...over.listener },
    grpc: {
      connection_timeout: 120_000,
      enable_reflection: false,
      latency_buckets_ms: [10, 25, 100],
      max_message_bytes: 4_194_304,
      max_connection_age: 0,
      max_connection_age_grace: 0,
      transport: "auto",
      ...over.grpc,
    },
    http: {
      disable_http_keep_alives: false,
      idle_timeout: 30_000,
      latency_buckets_ms: [10, 25, 100],
      max_body_bytes: 1_048_576,
      max_headers: 1_000,
      max_header_bytes: 1_048_576,
      read_header_timeout: 10_000,
      read_timeout: 10_000,
      write_timeout: 45_000,
      ...over.http,
    },
    tls: {
      enabled: false,
      cert_file: "",
      key_file: "",
      client_ca_file: "",
      allowed_cn: "",
      ...over.tls,
    },
    drain: { accept_for: 0, grace: 1_000, ...over.drain },
  };
}

export function memoryMeter() {
  const http: { method: string; status: number; route: string; ms: number }[] = [];
  const grpc: string[] = [];
  const handled: { path: string; code: Code; ms: number }[] = [];
  const faults: Http2Fault[] = [];
  const refused: RefusedConnection[] = [];
  const certificates = new Map<string, () => CertificateSeconds>();
  const meter: ServerMeter = {
    grpcStarted: ({ path, type }) => grpc.push(`started ${path} ${type}`),
    grpcHandled: ({ path }, code, ms) => handled.push({ path, code, ms }),
    grpcReceived: ({ path }) => grpc.push(`received ${path}`),
    grpcSent: ({ path }) => grpc.push(`sent ${path}`),
    http2Fault: (fault) => faults.push(fault),
    connectionRefused: (why) => refused.push(why),
    certificate: (file, seconds) => void certificates.set(file, seconds),
    httpRequest: (method, status, route, ms) => http.push({ method, status, route, ms }),
  };
  return { meter, http, grpc, handled, faults, refused, certificates };
}

export interface TestPort extends Port {
  readonly log: MemoryLog;
  /** Number of a TCP port. */
  readonly port: number;
  readonly host: string;
}

/** Opens a port that is cut when the test ends. */
export async function testPort(
  test: TestContext,
  options: Partial<Omit<PortOptions, "settings">> & { readonly settings?: Overrides } = {},
): Promise<TestPort> {
  const log = memoryLog();
  const port = await openPort({
    services: [],
    routes: [],
    accessControl: NO_ACCESS_CONTROL,
    readScheduler: new ReadScheduler(realClock),
    clock: realClock,
    log,
    ...options,
    settings: portSettings(options.settings),
  });
  test.after(() => port.cut());
  const [, host = "", digits] = /^\[?(.*?)\]?:(\d+)$/.exec(port.address) ?? [];
  return Object.assign(port, { log, host, port: Number(digits) });
}

/** Sends raw bytes and collects the reply until the other side closes. */
export function exchange(socket: Socket, text: string | Uint8Array): Promise<string> {
  socket.write(text);
  return readAll(socket);
}

export function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let seen = "";
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      seen += chunk;
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(seen));
  });
}

/** Opens a raw connection that is destroyed when the test ends. */
export function dial(test: TestContext, { host, port }: TestPort): Socket {
  const socket = connect({ host, port });
  socket.on("error", () => undefined);
  test.after(() => socket.destroy());
  return socket;
}
