// What a policy may be called. One rule for names in documents, names of files and names in requests.

/** As long as names of Kubernetes objects may be, in UTF-16 units. */
const LONGEST = 253;

/**
 * What a name would have to be, where it cannot be used: names become parts of storage keys, in which `/`
 * separates, of paths in requests, of labels and of lines in logs.
 */
export function nameFault(name: string): string | undefined {
  if (name === "" || name.length > LONGEST) return `a policy name of 1 to ${LONGEST} characters`;
  if (name.includes("/")) return "a policy name without `/`";
  if (name === "." || name === "..") return "a policy name other than `.` and `..`";
  if (/\p{Cc}/u.test(name)) return "a policy name without control characters";
  return name.isWellFormed() ? undefined : "a policy name in well-formed Unicode";
}
