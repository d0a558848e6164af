// Sanitises the values that classifiers extract, so that limiters, telemetry and baggage all see the same text.

// White space means Unicode's White_Space property. `\s` differs: it lacks U+0085 and contains U+FEFF.
const UNFIT = /[\p{White_Space}\\/;",]/gu;

/** Replaces characters that would break a baggage member by dashes, and lone surrogates by U+FFFD. */
export function sanitise(value: string): string {
  return value.toWellFormed().replace(UNFIT, "-");
}
