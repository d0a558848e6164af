// Durations as text, in two forms: that of policies, which is protobuf JSON (`1.5s`), and that of configuration
// (`1m30s`, `100ms`). All results are milliseconds.

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

const SECONDS = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/;
const PART = /(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/y;

/** Parses seconds with at most nine decimals and the suffix `s`. Returns undefined for any other text. */
export function parseSeconds(text: string): number | undefined {
  const found = SECONDS.exec(text);
  if (found === null) return undefined;
  const [, sign, whole = "0", fraction = ""] = found;
  const ms = Number(whole) * 1_000 + Number(fraction.padEnd(9, "0")) / 1e6;
  return sign === "-" ? -ms : ms;
}

/** Parses `1h2m3.5s`, `100ms` or `0`, each with an optional sign. Returns undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  const negative = text.startsWith("-");
  const body = negative || text.startsWith("+") ? text.slice(1) : text;
  if (body === "0") return 0;
  if (body === "") return undefined;
  let ms = 0;
  PART.lastIndex = 0;
  for (let at = 0; at < body.length; at = PART.lastIndex) {
    PART.lastIndex = at;
    const found = PART.exec(body);
    if (found === null) return undefined;
    ms += Number(found[1]) * (UNIT_MS[found[2] ?? ""] ?? Number.NaN);
  }
  return Number.isFinite(ms) ? (negative ? -ms : ms) : undefined;
}

/** A duration as protobuf JSON writes it: seconds with 0, 3, 6 or 9 decimals and `s`. */
export function formatSeconds(ms: number): string {
  const nanos = BigInt(Math.round(Math.abs(ms) * 1e6));
  const fraction = (nanos % 1_000_000_000n).toString().padStart(9, "0");
  const shown = fraction.replace(/(000){1,3}$/, "");
  const text = `${nanos / 1_000_000_000n}${shown === "" ? "" : `.${shown}`}s`;
  return ms < 0 && nanos !== 0n ? `-${text}` : text;
}

/** `90s`, `100ms`: text that parses to the same duration. */
export function formatDuration(ms: number): string {
  return ms % 1_000 === 0 ? `${ms / 1_000}s` : `${Number(ms.toFixed(6))}ms`;
}
