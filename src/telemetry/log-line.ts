// What may stand in a log line: fields made safe (no secrets, bounded depth), errors as one line of words,
// and the form for human eyes.

export type LogFields = Readonly<Record<string, unknown>>;

const MASK = "***";
const DEEPEST = 6;

/** Names whose values are never written, compared without case, dashes and underscores. */
const SECRET: ReadonlySet<string> = new Set([
  ...["authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey"],
  ...["agentapikey", "password", "passwd", "secret", "dsn", "accesstoken", "xforwardedaccesstoken"],
]);

function isSecretName(name: string): boolean {
  return name.length <= 40 && SECRET.has(name.toLowerCase().replaceAll(/[-_]/g, ""));
}

/** Credentials inside text: bearer and basic tokens, and the user part of URLs. */
function safeText(text: string): string {
  return text
    .replaceAll(/\b(bearer|basic)\s+[\w.~+/=-]+/gi, `$1 ${MASK}`)
    .replaceAll(/:\/\/[^\s/?#"]{1,512}@/g, `://${MASK}@`);
}

/** In lists of header names and values, side by side, a secret name hides its neighbour. */
function safeList(list: readonly unknown[], depth: number): readonly unknown[] {
  return list.map((item, at) => {
    const before = list[at - 1];
    if (typeof before === "string" && isSecretName(before)) return MASK;
    return safeValue(item, depth + 1);
  });
}

function safeValue(value: unknown, depth: number): unknown {
  if (typeof value === "string") return safeText(value);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return errorText(value);
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  if (value instanceof Date) return value;
  if (depth >= DEEPEST) return "…";
  if (Array.isArray(value)) return safeList(value, depth);
  if (value instanceof Map) return safeFields(Object.fromEntries(value), depth + 1);
  return safeFields(value, depth + 1);
}

function safeFields(fields: object, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isSecretName(name) && value !== undefined ? MASK : safeValue(value, depth),
    ]),
  );
}

/** The messages of an error and of what caused it, outermost first. */
function errorText(thrown: unknown): string {
  const words: string[] = [];
  let at = thrown;
  for (let depth = 0; at instanceof Error && depth < DEEPEST; depth++) {
    words.push(at.message || at.name);
    at = at.cause;
  }
  if (words.length === 0) words.push(String(thrown));
  return safeText(words.join(": "));
}

/** Names that the line itself uses; a field of the same name gets a trailing underscore. */
const OWN: ReadonlySet<string> = new Set([
  "level",
  "time",
  "service",
  "component",
  "message",
  "stack",
]);

/** Fields as they may be written. `error` becomes words; where it was unforeseen its stack stands beside. */
export function safeLine(fields: LogFields): Record<string, unknown> {
  const { error, ...rest } = fields;
  const safe: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(safeFields(rest, 0))) {
    safe[OWN.has(name) ? `${name}_` : name] = value;
  }
  if (error === undefined) return safe;
  safe["error"] = errorText(error);
  // A Fault says all in its words; anything else is a bug until shown otherwise.
  if (error instanceof Error && error.name !== "Fault" && error.name !== "ConfigFault") {
    safe["stack"] = safeText(error.stack ?? "");
  }
  return safe;
}

/** A message as it may be written. */
export function safeMessage(message: string): string {
  return safeText(message);
}

/** Text that cannot begin a line of its own or steer a terminal. */
function oneLine(text: string): string {
  return /\p{Cc}/u.test(text) ? JSON.stringify(text) : text;
}

/** A JSON line as a person reads it: time, level, component, message, then the rest. */
export function prettyLine(line: string): string {
  const fields: unknown = JSON.parse(line);
  const found = new Map<string, unknown>(Object.entries(fields ?? {}));
  const text = (name: string) => String(found.get(name) ?? "");
  const rest = [...found]
    .filter(([name]) => !OWN.has(name))
    .map(
      ([name, value]) =>
        ` ${name}=${typeof value === "string" ? oneLine(value) : JSON.stringify(value)}`,
    );
  const component = found.has("component") ? ` ${text("component")}:` : "";
  const stack = found.has("stack") ? `\n${text("stack")}` : "";
  const level = text("level").toUpperCase().padEnd(5);
  return `${text("time")} ${level}${component} ${oneLine(text("message"))}${rest.join("")}${stack}\n`;
}
