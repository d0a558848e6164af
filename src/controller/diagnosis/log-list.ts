// Formats lists for log lines with a bounded length: a policy may have thousands of components.

/** Items that one line names. */
export const MAX_LISTED = 5;

/** `a; b; c; d; e; and 35 more`. */
export function listed<T>(
  all: readonly T[],
  format: (each: T) => string,
  most = MAX_LISTED,
): string {
  const more = all.length > most ? `; and ${all.length - most} more` : "";
  return `${all.slice(0, most).map(format).join("; ")}${more}`;
}
