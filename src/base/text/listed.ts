// Formats lists for log lines and messages of bounded length.

/** Items that one line names. */
export const MAX_LISTED = 5;

/** Replaces lists by their lengths: their items may identify callers. */
export function counted(fields: object): object {
  const entries = Object.entries(fields);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Array.isArray(value) ? value.length : value]),
  );
}

/** `a; b; c; d; e; and 35 more`. */
export function listed<T>(
  all: readonly T[],
  format: (each: T) => string,
  most = MAX_LISTED,
): string {
  const more = all.length > most ? `; and ${all.length - most} more` : "";
  return `${all.slice(0, most).map(format).join("; ")}${more}`;
}
