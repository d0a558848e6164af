// The content of a log line: fields without secrets and of bounded size and depth, errors as one line of text, and the readable
// form for consoles.

import type { LogFields } from "#base/log.ts";
import { cutText } from "#base/text/cut.ts";
import { isCredential } from "#base/text/secret.ts";

const MASK = "***";
const DEEPEST = 6;

/** Masks credentials in text: bearer and basic tokens, and the user part of URLs. */
export function safeText(text: string): string {
  return text
    .replaceAll(/\b(bearer|basic)\s+[\w.~+/=-]+/gi, `$1 ${MASK}`)
    .replaceAll(/:\/\/[^\s/?#"]{1,512}@/g, `://${MASK}@`);
}

/** Fields whose lists alternate header names and values: `headers`, `rawHeaders`, `trailers`, `metadata`. */
const HEADER_FIELD = /header|trailer|metadata/i;

/** True if a list is known to hold header names and values: by the name of its field, or as a pair in a list. */
type ListKind = "headers" | "any";

/**
 * Masks the item after a secret name in a list. A list that is not known to hold headers may hold names of services, such
 * as `Authorization`, so there only names in lower case or with a dash count.
 */
function safeList(list: readonly unknown[], kind: ListKind, depth: number): readonly unknown[] {
  return list.map((item, at) => {
    const before = list[at - 1];
    if (typeof before === "string" && isCredential(before)) {
      if (kind === "headers" || /^[^A-Z]+$|-/.test(before)) return MASK;
    }
    return safeValue(item, "headers", depth + 1);
  });
}

function safeValue(value: unknown, kind: ListKind, depth: number): unknown {
  if (typeof value === "string") return cutText(safeText(value));
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return errorText(value);
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  if (value instanceof Date) return value;
  if (depth >= DEEPEST) return "…";
  if (Array.isArray(value)) return safeList(value, kind, depth);
  if (value instanceof Map) return safeFields(Object.fromEntries(value), depth + 1);
  return safeFields(value, depth + 1);
}

function safeFields(fields: object, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (isCredential(name) && value !== undefined) return [name, MASK];
      return [name, safeValue(value, HEADER_FIELD.test(name) ? "headers" : "any", depth)];
    }),
  );
}

/** The messages of an error and of its causes, outermost first. */
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

/** Names that every line uses itself. A field of the same name gets a trailing underscore. */
const RESERVED: ReadonlySet<string> = new Set([
  "level",
  "time",
  "service",
  "component",
  "message",
  "stack",
]);

/** Fields as they may be written. `error` becomes text; an unexpected error also gets a field `stack`. */
export function safeLine(fields: LogFields): Record<string, unknown> {
  const { error, ...rest } = fields;
  const safe: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(safeFields(rest, 0))) {
    safe[RESERVED.has(name) ? `${name}_` : name] = value;
  }
  if (error === undefined) return safe;
  safe["error"] = errorText(error);
  // The message of a Fault explains it; any other error is presumed to be a bug.
  if (error instanceof Error && error.name !== "Fault" && error.name !== "ConfigFault") {
    safe["stack"] = safeText(error.stack ?? "");
  }
  return safe;
}

/** Escapes text with control characters, which could start a new line or control a terminal. */
function oneLine(text: string): string {
  return /\p{Cc}/u.test(text) ? JSON.stringify(text) : text;
}

/** Escape sequences that set the colour of a level on a terminal. */
const COLOURS: ReadonlyMap<string, string> = new Map([
  ["debug", "\u001b[2m"],
  ["info", "\u001b[32m"],
  ["warn", "\u001b[33m"],
  ["error", "\u001b[31m"],
  ["fatal", "\u001b[31m"],
]);
const PLAIN = "\u001b[0m";

/** The same with the level in colour. */
export function colouredLine(line: string): string {
  return readableLine(line, (level, name) => {
    const colour = COLOURS.get(name);
    return colour === undefined ? level : `${colour}${level}${PLAIN}`;
  });
}

/** A JSON line in readable form: time, level, component, message, then the other fields. */
export function prettyLine(line: string): string {
  return readableLine(line, (level) => level);
}

function readableLine(line: string, paint: (level: string, name: string) => string): string {
  const fields: unknown = JSON.parse(line);
  const found = new Map<string, unknown>(Object.entries(fields ?? {}));
  const text = (name: string) => String(found.get(name) ?? "");
  const rest = [...found]
    .filter(([name]) => !RESERVED.has(name))
    .map(
      ([name, value]) =>
        ` ${name}=${typeof value === "string" ? oneLine(value) : JSON.stringify(value)}`,
    );
  const component = found.has("component") ? ` ${text("component")}:` : "";
  const stack = found.has("stack") ? `\n${text("stack")}` : "";
  const level = paint(text("level").toUpperCase().padEnd(5), text("level"));
  return `${text("time")} ${level}${component} ${oneLine(text("message"))}${rest.join("")}${stack}\n`;
}
