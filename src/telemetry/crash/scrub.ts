// Takes secrets out of texts that leave the process.

const MASK = "***";
/** Shorter ones would also hide parts of ordinary words. */
const SHORTEST_SECRET = 4;

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  // Credentials in URLs, and what follows the path of one.
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, `$1${MASK}@`],
  [/(\bhttps?:\/\/[^\s?#]+)[?#]\S*/gi, `$1?${MASK}`],
  [/\b(bearer|basic)\s+[\w+/=.~-]+/gi, `$1 ${MASK}`],
  [
    /\b([\w-]*(?:authorization|cookie|password|passwd|secret|token|api[_-]?key|dsn))(["']?\s*[=:]\s*)("[^"]*"|'[^']*'|\S+)/gi,
    `$1$2${MASK}`,
  ],
  // Mail addresses, JSON Web Tokens and IP addresses name people and machines.
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, MASK],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, MASK],
  [/\b\d{1,3}(?:\.\d{1,3}){3}\b/g, MASK],
];

/** The texts of all secrets that a configuration holds. */
export function scrubber(secrets: Iterable<string>): (text: string) => string {
  // The longest first: one may be a part of another.
  const known = [...new Set(secrets)]
    .filter(({ length }) => length >= SHORTEST_SECRET)
    .sort((a, b) => b.length - a.length);
  return (text) => {
    let clean = text;
    for (const secret of known) clean = clean.replaceAll(secret, MASK);
    for (const [pattern, mask] of PATTERNS) clean = clean.replace(pattern, mask);
    return clean;
  };
}
