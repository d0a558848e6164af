// Values of a request that cannot be read. They differ from values that are absent, because a caller must not avoid a limit
// by sending a body that is not JSON.

/** The reason for which a value cannot be read. */
export interface Unreadable {
  readonly reason: string;
}

/** The proxy sent only the beginning of the body. */
export const CUT: Unreadable = Object.freeze({ reason: "body_cut" });
/** Text that is not a JSON document, form or token. */
export const MALFORMED: Unreadable = Object.freeze({ reason: "malformed" });
/** A value of the request is too long for a regular expression of the selector. */
export const NOT_TESTED: Unreadable = Object.freeze({ reason: "not_tested" });
/** A JSON document that is too long or nested too deeply. */
export const TOO_LARGE: Unreadable = Object.freeze({ reason: "too_large" });

export function isUnreadable(value: object | string | undefined): value is Unreadable {
  return typeof value === "object" && "reason" in value;
}
