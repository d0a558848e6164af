// Why a connection must end: a code of RFC 9113 §7 for the peer and a name for the counter.

import type { Http2Fault } from "../settings.ts";
import { ERROR } from "./frames.ts";

/** Thrown while a frame is read; ends the connection. `message` is sent as debug data, so it repeats no input. */
export class ConnectionFault extends Error {
  readonly code: number;
  /** undefined: it has been counted. */
  readonly fault: Http2Fault | undefined;

  constructor(code: number, fault: Http2Fault | undefined, message: string) {
    super(message);
    this.code = code;
    this.fault = fault;
  }
}

export function protocolFault(message: string): ConnectionFault {
  return new ConnectionFault(ERROR.protocol, "protocol", message);
}

export function sizeFault(message: string): ConnectionFault {
  return new ConnectionFault(ERROR.frameSize, "frame_size", message);
}
