// Sanitises values that classifiers extract: characters that would break a baggage member become dashes. Limiters,
// telemetry and baggage all see the same text.

// White space means Unicode's White_Space property. `\s` differs: it lacks U+0085 and contains U+FEFF.
const UNFIT = /[\p{White_Space}\\/;",]/gu;

/** The value with such characters replaced, and lone surrogates, which no wire format can carry, as U+FFFD. */
export function sanitise(value: string): string {
  return value.toWellFormed().replace(UNFIT, "-");
}
