// Failed gRPC calls as faults that operators understand. The library describes a failed connection by the errors of its
// parts, with notes and times, and one through a proxy not at all.

import type { ServiceError } from "@grpc/grpc-js";
import { CODES, type Code, Fault } from "#base/fault.ts";

/** The parts of a connection that may explain its failure. */
export interface GrpcPath {
  readonly isSecure: boolean;
  readonly proxy: URL | undefined;
  /** The setting to change if only one of client and server speaks TLS. */
  readonly hints: TlsHints | undefined;
}

/** Each names a setting, as in `say http:// in etcd.endpoints`. */
export interface TlsHints {
  readonly forCleartext: string;
  readonly forTls: string;
}

const BY_NUMBER: ReadonlyMap<number, Code> = new Map(
  Object.entries(CODES).map(([code, { number }]) => [number, code as Code]),
);

/** The server's status as a Fault, or the reason why there is none. Its cause is the error of the library. */
export function faultOf(error: ServiceError | null, path: GrpcPath): Fault {
  if (error === null) return new Fault("INTERNAL", "the server sent no response");
  const code = BY_NUMBER.get(error.code) ?? "UNKNOWN";
  const message = code === "UNAVAILABLE" ? unavailable(error.details, path) : error.details;
  return new Fault(code, message, { cause: error });
}

function unavailable(details: string, { isSecure, proxy, hints }: GrpcPath): string {
  const [, why] =
    /^No connection established\. Last error: (?:\w*Error(?: \[\w+\])?: )?(.*)$/s.exec(details) ??
    [];
  if (why === undefined) return details.trim();
  const plain = why
    .replace(/\.? ?Resolution note: .*$/s, "")
    .replace(/ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/g, "")
    .trim();
  // The library does not report the answer of the proxy.
  if (plain === "undefined" && proxy !== undefined)
    return `cannot connect: the proxy ${proxy.host} (client.proxy, or HTTP_PROXY and HTTPS_PROXY) is away or refused`;
  const hint = isSecure ? hintForCleartext(plain, hints) : hintForTls(plain, hints);
  return `cannot connect: ${plain}${hint}`;
}

/** A server without TLS answers a TLS handshake with garbage, or hangs up. */
function hintForCleartext(why: string, hints: TlsHints | undefined): string {
  const isOdd =
    /wrong version number|packet length too long|ERR_SSL|before secure TLS|ECONNRESET|socket hang up/i;
  if (hints === undefined || !isOdd.test(why)) return "";
  return `; if the server does not speak TLS on this port, ${hints.forCleartext}`;
}

/** A TLS server hangs up on cleartext. */
function hintForTls(why: string, hints: TlsHints | undefined): string {
  const isOdd = /^Failed to connect|ECONNRESET|EPIPE|socket hang up|Protocol error/i;
  if (hints === undefined || !isOdd.test(why)) return "";
  return `; if the server speaks only TLS on this port, ${hints.forTls}`;
}
