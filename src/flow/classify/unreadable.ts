// Values that a request has and that cannot be read. They are told apart from values that it does not have, because
// callers choose them: whoever sends a body that is no JSON must not thereby choose that no limit applies.

/** The reason for which a value cannot be read. */
export interface Unreadable {
  readonly reason: string;
}

/** The proxy sent only the beginning of the body. */
export const CUT: Unreadable = Object.freeze({ reason: "body_cut" });
/** Text that is no JSON document or no token. */
export const MALFORMED: Unreadable = Object.freeze({ reason: "malformed" });
/** A JSON document that is too long or nested too deep. */
export const TOO_LARGE: Unreadable = Object.freeze({ reason: "too_large" });

export function isUnreadable(value: object | string | undefined): value is Unreadable {
  return typeof value === "object" && "reason" in value;
}
