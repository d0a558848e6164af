// The one error class of the house and its code list. Every edge turns whatever was thrown into a
// Fault with `Fault.from` and answers with its code; the cause is for the log and is never sent.

/** Canonical status codes: number on the gRPC wire and HTTP status at a JSON door. */
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

export interface FaultOptions {
  /** What went wrong underneath. Logged, never sent to a caller. */
  readonly cause?: unknown;
  /** HTTP status where it is sharper than the code's own (405, 413, 415, 431). */
  readonly http?: number;
  /** Extra reply headers of an HTTP door, lower case (`allow`, `retry-after`). */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A failure with a code. `message` is fit to be sent: at the check doors it repeats nothing of the caller's
 * input, elsewhere at most what its author needs to find the fault, and never a secret.
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

  /** A Fault as it is; anything else becomes INTERNAL with a message that tells the caller nothing. */
  static from(thrown: unknown): Fault {
    if (thrown instanceof Fault) return thrown;
    return new Fault("INTERNAL", "internal error", { cause: thrown });
  }
}
