// A connection error (RFC 9113 §5.4.1): the error code for the peer, and the fault that metrics count.

import type { Http2Fault } from "#base/server-meter.ts";
import { ERROR_CODE } from "./format.ts";

/** Thrown while a frame is read; ends the connection. The peer gets `message`, so it repeats no input. */
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

export function flowControlError(message: string): ConnectionError {
  return new ConnectionError(ERROR_CODE.flowControl, "flow_control", message);
}

/** ENHANCE_YOUR_CALM: the peer causes too much work. */
export function loadError(fault: Http2Fault | undefined, message: string): ConnectionError {
  return new ConnectionError(ERROR_CODE.enhanceYourCalm, fault, message);
}
