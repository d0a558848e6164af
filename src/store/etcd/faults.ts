// Translates a failed call to etcd: a message that names the server, and whether another server may answer.

import { type Code, Fault } from "#base/fault.ts";
import type { Endpoint } from "./settings.ts";

/** Calls that failed like this are made again, at another server. */
const TRANSIENT: ReadonlySet<Code> = new Set([
  "UNAVAILABLE",
  "DEADLINE_EXCEEDED",
  "INTERNAL",
  "CANCELLED",
  "ABORTED",
]);

/** A server that is too slow answers with the error of its own deadline, under the code UNKNOWN. */
const OUT_OF_TIME = /^context (?:deadline exceeded|canceled)$/;

export function isTransient(fault: Fault): boolean {
  const { code } = fault;
  return TRANSIENT.has(code) || (code === "UNKNOWN" && OUT_OF_TIME.test(detailsOf(fault)));
}

/** True if the failed call never left this process, so that making it again cannot repeat its effect. */
export function neverSent(fault: Fault): boolean {
  return /^No connection established|^Name resolution failed/.test(detailsOf(fault));
}

/** True if a new token may help: the one in use expired, or users and roles were changed since it was issued. */
export function needsToken(fault: Fault): boolean {
  return /invalid auth token|auth store is old|user name is empty/.test(detailsOf(fault));
}

export function authIsOff(fault: Fault): boolean {
  return /authentication is not enabled/.test(detailsOf(fault));
}

/** The lease of a write does not exist (any more). */
export function leaseIsGone(fault: Fault): boolean {
  return /requested lease not found/.test(detailsOf(fault));
}

/** The revision that was asked for is older than what the server still has. */
export function isCompacted(fault: Fault): boolean {
  return /has been compacted/.test(detailsOf(fault));
}

/** The revision that was asked for is newer than the server's. */
export function isFutureRevision(fault: Fault): boolean {
  return /is a future revision/.test(detailsOf(fault));
}

/** The reply was larger than this client reads. */
export function isTooLarge(fault: Fault): boolean {
  return /message larger than max/i.test(detailsOf(fault));
}

/** The fault that callers see. */
export function etcdFault({ address }: Endpoint, thrown: Fault): Fault {
  const { code, message } = explained(thrown);
  return new Fault(code, `etcd at ${address}: ${message}`, { cause: thrown.cause ?? thrown });
}

/** The message of the server, or of the library if no server answered. */
function detailsOf({ cause, message }: Fault): string {
  const root = cause instanceof Fault ? cause.cause : cause;
  if (typeof root === "object" && root !== null && "details" in root) {
    return String(root.details) || message;
  }
  return message;
}

function explained(thrown: Fault): { readonly code: Code; readonly message: string } {
  const { code } = thrown;
  const said = detailsOf(thrown).replace(/^etcdserver: (mvcc: )?/, "");
  if (/invalid user ID or password/.test(said)) {
    const message = "refused etcd.username and etcd.password";
    return { code: "UNAUTHENTICATED", message };
  }
  if (/user name is empty/.test(said)) {
    const message = "wants a user: set etcd.username and etcd.password";
    return { code: "UNAUTHENTICATED", message };
  }
  if (/permission denied/.test(said)) {
    const message = "permission denied: the user has no role that allows this on these keys";
    return { code: "PERMISSION_DENIED", message };
  }
  if (/database space exceeded/.test(said)) {
    const message =
      "its database is full (alarm NOSPACE): compact and defragment it, then disarm the alarm";
    return { code: "RESOURCE_EXHAUSTED", message };
  }
  if (code === "DEADLINE_EXCEEDED") return { code: "UNAVAILABLE", message: "no answer in time" };
  if (code === "UNAVAILABLE" && neverSent(thrown)) return thrown;
  return { code: isTransient(thrown) ? "UNAVAILABLE" : code, message: said.trim() };
}
