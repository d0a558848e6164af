// Names that look like those of secrets. Their values are neither logged nor shown on terminals.

/** Ends of names of credentials, in lower case without dashes and underscores. */
const CREDENTIALS: readonly string[] = [
  "accesstoken",
  "apikey",
  "authorization",
  "cookie",
  "dsn",
  "passwd",
  "password",
  "secret",
];

/** Words in names whose values may be secrets. */
const WORDS: readonly string[] = [
  ...CREDENTIALS,
  "bearer",
  "credential",
  "jwt",
  "passphrase",
  "session",
  "token",
];

const LONGEST = 40;

/** True if a field or a header has the name of a credential (`x-api-key`, `proxy_authorization`). */
export function isCredential(name: string): boolean {
  if (name.length > LONGEST) return false;
  const plain = plainName(name);
  return CREDENTIALS.some((end) => plain.endsWith(end));
}

/** True if the value of a label may be a secret, by its name (`user_session_id`). Suspects more than `isCredential`. */
export function mayBeSecret(name: string): boolean {
  const plain = plainName(name);
  return WORDS.some((word) => plain.includes(word));
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, "");
}
