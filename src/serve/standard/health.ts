// grpc.health.v1.Health for exactly the services that are served, under their full names and the older names that
// existing probes ask for, and "" for the process.

import { Fault } from "#base/fault.ts";
import type { Call, GrpcService, Stream } from "#base/handler.ts";
import { BYTES, ProtoReader } from "#wire/protobuf/reader.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

export interface HealthService {
  readonly service: GrpcService;
  /** Setting a service also sets its other names. Throws for names that are not served. */
  set(name: string, serving: boolean): void;
  /** Sets the process and every service. */
  setAll(serving: boolean): void;
  /** A drain starts: nothing is serving any more, and nothing can be set. */
  beginDrain(): void;
  /** Ends every watch, so that its connection can close. */
  close(): void;
}

export function healthService(services: readonly GrpcService[]): HealthService {
  const aliases = new Map<string, readonly string[]>([["", [""]]]);
  for (const { name, healthNames = [] } of services) aliases.set(name, [name, ...healthNames]);
  const status = new Map([...aliases.values()].flat().map((name) => [name, SERVING]));
  const wakers = new Set<() => void>();
  let leaving = false;
  let closed = false;

  const wake = () => {
    for (const waker of [...wakers]) waker();
  };

  /** Resolves at the next change of any status, or when the call is cancelled. */
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
      access: "open",
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
    setAll(serving) {
      if (leaving) return;
      for (const name of status.keys()) status.set(name, serving ? SERVING : NOT_SERVING);
      wake();
    },
    beginDrain() {
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
  const reader = new ProtoReader(message);
  let name = "";
  while (reader.at < reader.end) {
    const field = reader.tag(reader.end);
    if (field === 1 && reader.wire === BYTES) name = reader.text(reader.end);
    else reader.skip(field, reader.end);
  }
  return name;
}

/** HealthCheckResponse { ServingStatus status = 1 } */
function writeStatus(status: number): Uint8Array {
  return Uint8Array.of(1 << 3, status);
}

/** HealthListResponse { map<string, HealthCheckResponse> statuses = 1 } */
function writeList(statuses: ReadonlyMap<string, number>): Uint8Array {
  const writer = new ProtoWriter();
  for (const [name, status] of statuses) {
    const entry = writer.open((1 << 3) | BYTES);
    writer.text((1 << 3) | BYTES, name);
    writer.bytesField((2 << 3) | BYTES, writeStatus(status));
    writer.close(entry);
  }
  return writer.view();
}
