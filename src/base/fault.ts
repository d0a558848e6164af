// The one error class of Sluice and its list of codes. Every edge turns exceptions into Faults with `Fault.from` and
// answers with the code; the cause is logged and never sent.

/** Canonical gRPC status codes: their number in gRPC, and the HTTP status of JSON routes. */
export const CODES = {
  OK: { number: 0, http: 200 },
  CANCELLED: { number: 1, http: 499 },
  UNKNOWN: { number: 2, http: 500 },
  INVALID_ARGUMENT: { number: 3, http: 400 },
  DEADLINE_EXCEEDED: { number: 4, http: 504 },
  NOT_FOUND: { number: 5, http: 404 },
  ALREADY_EXISTS: { number: 6, http: 409 },
  PERMISSION_DENIED: { number: 7, http: 403 },
  RESOURCE_EXHAUSTED: { number: 8, http: 429 },
  FAILED_PRECONDITION: { number: 9, http: 400 },
  ABORTED: { number: 10, http: 409 },
  OUT_OF_RANGE: { number: 11, http: 400 },
  UNIMPLEMENTED: { number: 12, http: 501 },
  INTERNAL: { number: 13, http: 500 },
  UNAVAILABLE: { number: 14, http: 503 },
  DATA_LOSS: { number: 15, http: 500 },
  UNAUTHENTICATED: { number: 16, http: 401 },
} as const;

export type Code = keyof typeof CODES;

interface FaultOptions {
  /** The underlying error. Logged, never sent to a caller. */
  readonly cause?: unknown;
  /** HTTP status, where it is more specific than that of the code (405, 413, 415, 431). */
  readonly http?: number;
  /** Additional headers of an HTTP reply, lower case (`allow`, `retry-after`). */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A failure with a code. Its `message` may be sent to callers: replies to checks repeat nothing of the caller's input,
 * other replies repeat at most what the author of the input needs to find the mistake, and none repeats a secret.
 */
export class Fault extends Error {
  readonly code: Code;
  readonly http: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: Code, message: string, options: FaultOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "Fault";
    this.code = code;
    this.http = options.http ?? CODES[code].http;
    this.headers = options.headers ?? {};
  }

  /** Returns a Fault unchanged; anything else becomes INTERNAL, with a message that reveals nothing. */
  static from(thrown: unknown): Fault {
    if (thrown instanceof Fault) return thrown;
    return new Fault("INTERNAL", "internal error", { cause: thrown });
  }
}

/** True if a fault of a call says that the server cannot be asked at present, whatever the call. */
export function isServerAway({ code }: Fault): boolean {
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}

/** The text of an operating system error, as in `EACCES: permission denied`; for any other error its message. */
export function systemErrorText(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "unknown";
  // Node appends the call and the path, which the message around it names better.
  return "syscall" in thrown ? (thrown.message.split(",", 1)[0] ?? "unknown") : thrown.message;
}
