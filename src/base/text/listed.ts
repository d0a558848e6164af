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
  limit = MAX_LISTED,
): string {
  const more = all.length > limit ? `; and ${all.length - limit} more` : "";
  return `${all.slice(0, limit).map(format).join("; ")}${more}`;
}
