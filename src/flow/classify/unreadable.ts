// Values that a request has and that cannot be read. They are told apart from values that it does not have, because
// callers choose them: a caller must not be able to avoid a limit by sending a body that is not JSON.

/** The reason for which a value cannot be read. */
export interface Unreadable {
  readonly reason: string;
}

/** The proxy sent only the beginning of the body. */
export const CUT: Unreadable = Object.freeze({ reason: "body_cut" });
/** Text that is no JSON document or no token. */
export const MALFORMED: Unreadable = Object.freeze({ reason: "malformed" });
/** The selector has a regular expression for which a value of the request is too long. */
export const NOT_TESTED: Unreadable = Object.freeze({ reason: "not_tested" });
/** A JSON document that is too long or nested too deep. */
export const TOO_LARGE: Unreadable = Object.freeze({ reason: "too_large" });

export function isUnreadable(value: object | string | undefined): value is Unreadable {
  return typeof value === "object" && "reason" in value;
}
