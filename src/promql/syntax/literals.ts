// Parses and prints literals: strings with Go's escapes, numbers and durations.

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  '"': '"',
  "'": "'",
};
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.|$))/gsu;

/** The value of a string literal, or why it is invalid. */
export function unquote(literal: string): string | { readonly why: string } {
  const quote = literal[0] ?? "";
  if (literal.length < 2 || !literal.endsWith(quote)) return { why: "the string has no end" };
  const body = literal.slice(1, -1);
  if (quote === "`") return body;
  let why: string | undefined;
  const text = body.replace(ESCAPE, (all, hex, octal, short, long, letter?: string) => {
    const plain = letter === undefined ? undefined : ESCAPES[letter];
    // Inside the other kind of quotes a quote must not be escaped.
    if (plain !== undefined) return /["']/.test(plain) && plain !== quote ? fail() : plain;
    if (letter !== undefined) return fail();
    const byte = hex ?? octal;
    const code = byte === undefined ? parseInt(short ?? long, 16) : parseInt(byte, hex ? 16 : 8);
    // Bytes above 0x7f are parts of characters.
    if (byte !== undefined && code > 0x7f) return fail();
    return code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)
      ? fail()
      : String.fromCodePoint(code);

    function fail(): string {
      why ??= `the string has ${all}, which is not a valid escape`;
      return all;
    }
  });
  return why === undefined ? text : { why };
}

/** A string literal in double quotes. */
export function quote(text: string): string {
  // JSON escapes a subset of what may be escaped, and in the same way.
  return JSON.stringify(text).replaceAll("\x7f", "\\u007f");
}

const UNITS = [
  ["y", 31_536_000_000],
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;
const PARTS = /(\d+)(ms|[ywdhms])/gy;

/** `1h30m` in ms; undefined when the text is anything else. */
export function parseDurationLiteral(text: string): number | undefined {
  let ms = 0;
  let end = 0;
  for (const [part, count, unit] of text.matchAll(PARTS)) {
    ms += Number(count) * (UNITS.find(([name]) => name === unit)?.[1] ?? 0);
    end += part.length;
  }
  return end > 0 && end === text.length ? ms : undefined;
}

/** As Prometheus prints durations: years and weeks only when nothing is left over. */
export function printDurationLiteral(ms: number): string {
  if (ms === 0) return "0s";
  let rest = Math.abs(ms);
  let text = "";
  for (const [unit, size] of UNITS) {
    if ((unit === "y" || unit === "w") && rest % size !== 0) continue;
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return ms < 0 ? `-${text}` : text;
}

/** Parses a number without a sign. A duration counts as its seconds. */
export function parseNumber(text: string): number {
  const plain = text.replaceAll("_", "");
  if (/^inf$/i.test(plain)) return Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(plain)) return Number.NaN;
  // Go's rule: digits after a leading zero are octal.
  if (/^0[0-7]+$/.test(plain)) return parseInt(plain, 8);
  const span = parseDurationLiteral(plain);
  return span === undefined ? Number(plain) : span / 1000;
}

/** Prints a number without an exponent. */
export function printNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (Object.is(value, -0)) return "-0";
  const text = String(value);
  const found = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (found === null) return text;
  const [, sign = "", first = "", rest = "", exponent = ""] = found;
  const digits = first + rest;
  const point = 1 + Number(exponent);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0").slice(0, point)}${digits.length > point ? `.${digits.slice(point)}` : ""}`;
}
