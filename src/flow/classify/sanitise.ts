// What becomes of a classifier's value before anybody sees it: characters that would break a baggage
// member turn into dashes. Limiters, telemetry and baggage all see the same text.

// White space is Unicode's White_Space property, which `\s` is not (it lacks U+0085 and has U+FEFF).
const UNFIT = /[\p{White_Space}\\/;",]/gu;

/** Lone surrogates, which no wire format can carry, become U+FFFD on the way. */
export function sanitise(value: string): string {
  return value.toWellFormed().replace(UNFIT, "-");
}
