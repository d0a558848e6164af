// The numbers and texts of a record of a finished flow: what the three kinds of senders report, and what follows from it.
// Durations in ms, lengths in bytes.

import { decimalOf } from "#base/text/decimal.ts";
import type { Attributes } from "#wire/otlp/records.ts";

/** The sender of a record: a proxy sends its access log, the plugin of nginx and Kong or an SDK sends a span. */
export type Source = "envoy" | "lua" | "sdk";

const SOURCES: ReadonlySet<string> = new Set<Source>(["envoy", "lua", "sdk"]);

/** The text that a proxy writes for an unknown value. */
const MISSING = "-";

const NS_PER_MS = 1e6;

/** Durations and lengths as senders measure them. A negative one is an error of its sender. */
const MEASURED: ReadonlySet<string> = new Set([
  "DURATION",
  "REQUEST_DURATION",
  "REQUEST_TX_DURATION",
  "RESPONSE_DURATION",
  "RESPONSE_TX_DURATION",
  "authz_duration",
  "BYTES_SENT",
  "BYTES_RECEIVED",
]);

/** Called for a duration or length that is negative; it is not used. */
type Bad = () => void;

/** Undefined when the source is unknown. */
export function sourceOf(record: Attributes): Source | undefined {
  const source = record.get("aperture.source");
  return typeof source === "string" && SOURCES.has(source) ? (source as Source) : undefined;
}

/** The attribute as text; empty when it is missing. */
export function textOf(record: Attributes, attribute: string): string {
  const value = String(record.get(attribute) ?? "");
  return value === MISSING ? "" : value;
}

/** An attribute of the record, or one derived from it; undefined where there is no usable number. */
export function numberOf(
  record: Attributes,
  source: Source,
  attribute: string,
  bad: Bad,
): number | undefined {
  switch (attribute) {
    case "flow_duration_ms":
      return source === "envoy"
        ? measured(record, "RESPONSE_DURATION", bad)
        : elapsed(record, source, "flow_start", bad);
    case "workload_duration_ms":
      return source === "envoy"
        ? responseWithoutCheck(record, bad)
        : elapsed(record, source, "workload_start", bad);
    // The proxy counts from its own point of view: it received the request.
    case "http.request_content_length":
      return measured(record, "BYTES_RECEIVED", bad);
    case "http.response_content_length":
      return measured(record, "BYTES_SENT", bad);
    default:
      return MEASURED.has(attribute)
        ? measured(record, attribute, bad)
        : plain(record.get(attribute));
  }
}

/** Time to the first byte of the response without the check. Undefined unless it is above 0. */
function responseWithoutCheck(record: Attributes, bad: Bad): number | undefined {
  const flow = measured(record, "RESPONSE_DURATION", bad);
  const check = measured(record, "authz_duration", bad);
  if (flow === undefined || check === undefined || flow <= check) return undefined;
  return flow - check;
}

/** Time from a start to the end of the flow. */
function elapsed(
  record: Attributes,
  source: Source,
  start: "flow_start" | "workload_start",
  bad: Bad,
): number | undefined {
  const from = timestamp(record, source, start);
  const to = timestamp(record, source, "flow_end");
  if (from === undefined || to === undefined) return undefined;
  return notNegative(to - from, bad);
}

/**
 * Unix ms. Newer SDKs name the unit; older ones mean nanoseconds by the name without it, and the plugin means
 * milliseconds.
 */
function timestamp(record: Attributes, source: Source, point: string): number | undefined {
  const inMs = plain(record.get(`aperture.${point}_timestamp_ms`));
  if (inMs !== undefined && source === "sdk") return inMs;
  const other = plain(record.get(`aperture.${point}_timestamp`));
  return other === undefined || source === "lua" ? other : other / NS_PER_MS;
}

function measured(record: Attributes, attribute: string, bad: Bad): number | undefined {
  const value = plain(record.get(attribute));
  return value === undefined ? undefined : notNegative(value, bad);
}

function notNegative(value: number, bad: Bad): number | undefined {
  if (value >= 0) return value;
  bad();
  return undefined;
}

/** A finite number, or one in decimal text. */
function plain(value: string | number | undefined): number | undefined {
  const number = typeof value === "string" ? decimalOf(value) : value;
  return number !== undefined && Number.isFinite(number) ? number : undefined;
}
