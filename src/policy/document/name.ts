// The rule for policy names, whether they come from a document, a file name or a request.

/** The limit for names of Kubernetes objects; here in UTF-16 units. */
const MAX_LENGTH = 253;

/**
 * Describes the name that is wanted instead, or gives undefined when `name` is valid. Names become parts of store
 * keys, where `/` separates, of request paths, of labels and of log lines.
 */
export function nameFault(name: string): string | undefined {
  if (name === "" || name.length > MAX_LENGTH)
    return `a policy name of 1 to ${MAX_LENGTH} characters`;
  if (name.includes("/")) return "a policy name without `/`";
  if (name === "." || name === "..") return "a policy name other than `.` and `..`";
  if (/\p{Cc}/u.test(name)) return "a policy name without control characters";
  return name.isWellFormed() ? undefined : "a policy name in well-formed Unicode";
}
