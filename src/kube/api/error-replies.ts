// Turns error replies of the API server into Faults with the server's reason.

import { type Code, Fault } from "#base/fault.ts";
import { fieldOf, textOf } from "./objects.ts";

/** Codes by HTTP status, unless the reason is more precise. */
const CODES: Readonly<Record<number, Code>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  410: "OUT_OF_RANGE",
  413: "RESOURCE_EXHAUSTED",
  415: "INVALID_ARGUMENT",
  422: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  500: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/** Longest part of a message that is the server's text, in characters. */
const MAX_TEXT = 1_000;

/**
 * `body` is the reply's, a Status of the API or anything else. `call` names the call without credentials, such as
 * `GET /api/v1/pods`. A conflict is ABORTED, an expired version is OUT_OF_RANGE.
 */
export function replyFault(call: string, status: number, body: unknown): Fault {
  const known = textOf(body, "reason") === "AlreadyExists" ? "ALREADY_EXISTS" : CODES[status];
  const code = known ?? (status >= 500 ? "UNAVAILABLE" : "UNKNOWN");
  const message = textOf(body, "message");
  const said = message.length > MAX_TEXT ? `${message.slice(0, MAX_TEXT)}…` : message;
  return new Fault(code, `${call}: status ${status}${said === "" ? "" : `: ${said}`}`);
}

/** The Fault of an event of kind ERROR in a watch. */
export function eventFault(call: string, status: unknown): Fault {
  const code = fieldOf(status, "code");
  return replyFault(call, typeof code === "number" ? code : 500, status);
}
