// Runs gRPC methods behind Sluice's gRPC request handler, on recording streams and a fake clock.

import type { Method } from "#base/handler.ts";
import type { Exchange, RequestHead } from "#h2/exchange.ts";
import { grpcRequestHandler } from "#serve/grpc/request-handler.ts";

import {
  grpcHead,
  RecordingStream,
  type StreamOptions,
} from "../../kit/clients/recording-stream.ts";

import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { memoryMeter, portSettings } from "../../kit/sluice/port.ts";

export interface TestCall {
  readonly stream: RecordingStream;
  readonly exchange: Exchange;
  /** Sends the bytes as one DATA frame. */
  send(bytes: Uint8Array, last?: boolean): void;
  /** The caller resets the stream. */
  cancel(): void;
}

export function serveMethods(methods: Readonly<Record<string, Method>>) {
  const clock = fakeClock();
  const log = memoryLog();
  const { meter, ...counted } = memoryMeter();
  const service = { name: "test.Service", methods };
  const grpc = grpcRequestHandler([service], portSettings().grpc, { clock, log, meter });
  const open = (head: RequestHead, last = false, options: StreamOptions = {}): TestCall => {
    const stream = new RecordingStream(options);
    const exchange = grpc.handle(stream, head, last);
    return {
      stream,
      exchange,
      send(bytes, ends = false) {
        const chunk = Buffer.from(bytes);
        exchange.data(chunk, 0, chunk.length, ends);
      },
      cancel() {
        stream.resetByPeer();
        exchange.aborted();
      },
    };
  };
  return {
    clock,
    log,
    grpc,
    counted,
    open,
    call: (name: string, fields: readonly string[] = [], options: StreamOptions = {}) =>
      open(grpcHead(`/test.Service/${name}`, fields), false, options),
    /** Status codes of the calls that have ended. */
    codes: () => counted.handled.map(({ code }) => code),
  };
}

/** Lets pending promises and callbacks run. */
export async function turns(count = 3): Promise<void> {
  for (let at = 0; at < count; at++) await new Promise((resolve) => setImmediate(resolve));
}
