// Reports in Envoy's gRPC access log. It has the numbers that log records of the same Envoy have, under the names of
// Envoy's format strings: times as durations from the start of the request, lengths as integers, the check in the metadata.

import { decimalOf } from "#base/text/decimal.ts";
import { type HttpLogEntry, TIME } from "#wire/access-log/entry.ts";
import { type FlowReport, MISSING } from "./flow-report.ts";

/** Envoy's value of `%RESPONSE_CODE%` for a request without a response. */
const NO_RESPONSE = "0";

/** One object serves for all entries, as they are read one after the other. */
export class LoggedEntry implements FlowReport {
  readonly source = "envoy";
  /** An entry always has its decision, if there is one. */
  readonly requestId = "";
  readonly controlPoint = "";
  readonly status = "";
  #entry: HttpLogEntry | undefined;

  of(entry: HttpLogEntry): this {
    this.#entry = entry;
    return this;
  }

  get decision(): string {
    return this.#entry?.decision ?? "";
  }

  get statusCode(): string {
    const code = this.#entry?.statusCode;
    return code === undefined ? NO_RESPONSE : String(code);
  }

  number(name: string): number | undefined {
    const entry = this.#entry;
    switch (name) {
      case "RESPONSE_DURATION":
        return entry?.time(TIME.firstUpstreamByteReceived);
      case "authz_duration":
        return entry?.checkMs;
      case "DURATION":
        return entry?.time(TIME.end) ?? entry?.time(TIME.lastDownstreamByteSent);
      case "REQUEST_DURATION":
        return entry?.time(TIME.lastRequestByteReceived);
      case "REQUEST_TX_DURATION":
        return entry?.time(TIME.lastUpstreamByteSent);
      case "RESPONSE_TX_DURATION":
        return difference(
          entry?.time(TIME.firstUpstreamByteReceived),
          entry?.time(TIME.lastDownstreamByteSent),
        );
      case "BYTES_RECEIVED":
        return entry?.requestBytes;
      case "BYTES_SENT":
        return entry?.responseBytes;
      case "http.status_code":
        return entry?.statusCode;
      default: {
        const tag = entry?.tag(name);
        return tag === undefined ? undefined : decimalOf(tag);
      }
    }
  }

  has(name: string): boolean {
    return this.number(name) !== undefined || (this.#entry?.tag(name) ?? MISSING) !== MISSING;
  }
}

function difference(from: number | undefined, to: number | undefined): number | undefined {
  return from === undefined || to === undefined ? undefined : to - from;
}
