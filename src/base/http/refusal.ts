// Reasons to refuse a flow before any rule judges it: no service should see its request. The end user who sent the
// request controls these faults, so they are decisions and not errors: gateways let requests pass on errors.

export interface Refusal {
  /** HTTP status for the sender of the request. */
  readonly status: 400 | 408 | 413 | 431;
  /** A sentence without its full stop, which repeats nothing of the request. */
  readonly why: string;
}

export const REFUSALS = {
  method: { status: 400, why: "the method contains a control character" },
  path: { status: 400, why: "the path contains NUL, CR, LF or %00" },
  host: { status: 400, why: "the host contains NUL, CR or LF" },
  headerName: { status: 400, why: "the name of a header contains a control character" },
  headerValue: { status: 400, why: "the value of a header contains NUL, CR or LF" },
  malformedHead: { status: 400, why: "the header section of the call itself is malformed" },
  framing: { status: 400, why: "the body is not framed as its header section says" },
  lateBody: { status: 408, why: "the body did not arrive within server.http.read_timeout" },
  tooManyHeaders: {
    status: 431,
    why: "the request has more headers than server.http.max_headers allows",
  },
  headTooLarge: {
    status: 431,
    why: "the call itself has more headers than server.http.max_headers allows, or longer ones than max_header_bytes",
  },
  tooManyLabels: {
    status: 413,
    why: "the flow has more labels than server.http.max_labels allows",
  },
  tooLarge: {
    status: 413,
    why: "the description of the request is longer than server.http.max_body_bytes allows",
  },
} as const satisfies Readonly<Record<string, Refusal>>;
