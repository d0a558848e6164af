// Services behind the gRPC answerer, on streams and a clock that the test moves.

import { grpcAnswerer } from "#serve/grpc/answerer.ts";
import type { Exchange, Head } from "#serve/h2/exchange.ts";
import type { Method } from "#serve/handler.ts";
import { fakeClock } from "../../kit/clock.ts";
import { FakeStream, grpcHead, type StreamOptions } from "../../kit/h2-stream.ts";
import { memoryLog, memoryMeter } from "../../kit/port.ts";

export interface TestCall {
  readonly stream: FakeStream;
  readonly exchange: Exchange;
  /** Sends all bytes as one part. */
  send(bytes: Uint8Array, last?: boolean): void;
  /** The caller takes the call back. */
  leave(): void;
}

export function serving(methods: Readonly<Record<string, Method>>) {
  const clock = fakeClock();
  const log = memoryLog();
  const { meter, ...counted } = memoryMeter();
  const service = { name: "test.Service", healthNames: [], methods };
  const grpc = grpcAnswerer([service], { clock, log, meter });
  const open = (head: Head, last = false, options: StreamOptions = {}): TestCall => {
    const stream = new FakeStream(options);
    const exchange = grpc.answer(stream, head, last);
    return {
      stream,
      exchange,
      send(bytes, ends = false) {
        const chunk = Buffer.from(bytes);
        exchange.data(chunk, 0, chunk.length, ends);
      },
      leave() {
        stream.drop();
        exchange.gone();
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
    /** Codes of the calls that have ended. */
    codes: () => counted.handled.map(({ code }) => code),
  };
}

/** Lets promises and callbacks that are due run. */
export async function turns(count = 3): Promise<void> {
  for (let at = 0; at < count; at++) await new Promise((resolve) => setImmediate(resolve));
}
