// A connection error (RFC 9113 §5.4.1): the error code for the peer, and the fault that metrics count.

import type { Http2Fault } from "#base/server-meter.ts";
import { ERROR_CODE } from "./format.ts";

/**
 * Thrown while a frame is read; ends the connection. `message` is sent to the peer as debug data, so it repeats no
 * input.
 */
export class ConnectionError extends Error {
  readonly code: number;
  /** undefined: the fault has been counted already. */
  readonly fault: Http2Fault | undefined;

  constructor(code: number, fault: Http2Fault | undefined, message: string) {
    super(message);
    this.code = code;
    this.fault = fault;
  }
}

export function protocolError(message: string): ConnectionError {
  return new ConnectionError(ERROR_CODE.protocol, "protocol", message);
}

export function frameSizeError(message: string): ConnectionError {
  return new ConnectionError(ERROR_CODE.frameSize, "frame_size", message);
}
