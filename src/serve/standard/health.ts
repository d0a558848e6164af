// grpc.health.v1.Health for exactly the services that are served, under their real names and the older names
// that existing probes ask for, plus "" for the process.

import protobuf from "protobufjs/minimal.js";
import { Fault } from "#base/fault.ts";
import type { Call, Service, Stream } from "../handler.ts";

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

export interface Health {
  readonly service: Service;
  /** Real names also set the service's other names. Names that are not served throw. */
  set(name: string, serving: boolean): void;
  /** A drain begins: nothing serves, and nothing can be set any more. */
  leave(): void;
  /** Ends every watch, so that their connections can close. */
  close(): void;
}

export function healthOf(services: readonly Service[]): Health {
  const aliases = new Map<string, readonly string[]>([["", [""]]]);
  for (const { name, healthNames } of services) aliases.set(name, [name, ...healthNames]);
  const status = new Map([...aliases.values()].flat().map((name) => [name, SERVING]));
  const wakers = new Set<() => void>();
  let leaving = false;
  let closed = false;

  const wake = () => {
    for (const waker of [...wakers]) waker();
  };

  /** Resolves at the next change of anything, or when the caller is gone. */
  const changed = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const done = () => {
        wakers.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      if (signal.aborted || closed) return resolve();
      wakers.add(done);
      signal.addEventListener("abort", done);
    });

  async function watch({ messages, send }: Stream, call: Call): Promise<void> {
    let name = "";
    for await (const message of messages) name = readName(message);
    const signal = call.signal();
    for (let last = 0; !signal.aborted && !closed; ) {
      const now = status.get(name) ?? SERVICE_UNKNOWN;
      if (now !== last) await send(writeStatus(now));
      else await changed(signal);
      last = now;
    }
    if (closed) throw new Fault("UNAVAILABLE", "shutting down");
  }

  return {
    service: {
      name: "grpc.health.v1.Health",
      healthNames: [],
      methods: {
        Check: {
          kind: "unary",
          handle(message) {
            const found = status.get(readName(message));
            if (found === undefined) throw new Fault("NOT_FOUND", "unknown service");
            return writeStatus(found);
          },
        },
        List: { kind: "unary", handle: () => writeList(status) },
        Watch: { kind: "stream", client: false, server: true, handle: watch },
      },
    },
    set(name, serving) {
      const names = aliases.get(name);
      if (names === undefined) throw new Fault("NOT_FOUND", `${name} is not served here`);
      if (leaving) return;
      for (const each of names) status.set(each, serving ? SERVING : NOT_SERVING);
      wake();
    },
    leave() {
      leaving = true;
      for (const name of status.keys()) status.set(name, NOT_SERVING);
      wake();
    },
    close() {
      closed = true;
      wake();
    },
  };
}

/** HealthCheckRequest { string service = 1 } */
function readName(message: Uint8Array): string {
  try {
    const reader = protobuf.Reader.create(message);
    let name = "";
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === ((1 << 3) | 2)) name = reader.string();
      else reader.skipType(tag & 7);
    }
    return name;
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "wanted a HealthCheckRequest, got other bytes", { cause });
  }
}

/** HealthCheckResponse { ServingStatus status = 1 } */
function writeStatus(status: number): Uint8Array {
  return Uint8Array.of((1 << 3) | 0, status);
}

/** HealthListResponse { map<string, HealthCheckResponse> statuses = 1 } */
function writeList(statuses: ReadonlyMap<string, number>): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const [name, status] of statuses) {
    writer.uint32((1 << 3) | 2).fork();
    writer.uint32((1 << 3) | 2).string(name);
    writer.uint32((2 << 3) | 2).bytes(writeStatus(status));
    writer.ldelim();
  }
  return writer.finish();
}
