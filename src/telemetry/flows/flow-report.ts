// The report about a finished flow, and the numbers that follow from it. Log records and entries of proxies and spans of SDKs
// are first brought into this form. Durations are in ms, lengths in bytes.

/** The sender of a report: a proxy sends its access log, the plugin of nginx and Kong or an SDK sends a span. */
export type Source = "envoy" | "lua" | "sdk";

export interface FlowReport {
  readonly source: Source;
  /** The check response, in Base64 or, from SDKs, in JSON; "" when it is missing. */
  readonly decision: string;
  /** Id of the request and its control point, where the report has no decision; "" when they are missing. */
  readonly requestId: string;
  readonly controlPoint: string;
  /** Status of the response; "" when it is missing, "0" when there was no response. */
  readonly statusCode: string;
  /** Outcome where there is no status code; "" when it is missing. */
  readonly status: string;
  /**
   * The number under this name of docs/access-logs.md; undefined where there is none. It is what the sender says, and
   * need not make sense.
   */
  number(name: string): number | undefined;
  /** True if the sender wrote a value under this name, even one that is not a number. A lone `-` means that it has none. */
  has(name: string): boolean;
}

/** The text that a proxy writes for an unknown value. */
export const MISSING = "-";

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

/** A number of the report, or one derived from it; undefined where there is no usable number. */
export function numberOf(flow: FlowReport, attribute: string, bad: Bad): number | undefined {
  switch (attribute) {
    case "flow_duration_ms":
      return flow.source === "envoy"
        ? measured(flow, "RESPONSE_DURATION", bad)
        : elapsed(flow, "flow_start", bad);
    case "workload_duration_ms":
      return flow.source === "envoy"
        ? responseWithoutCheck(flow, bad)
        : elapsed(flow, "workload_start", bad);
    // The proxy counts from its own point of view: it received the request.
    case "http.request_content_length":
      return measured(flow, "BYTES_RECEIVED", bad);
    case "http.response_content_length":
      return measured(flow, "BYTES_SENT", bad);
    default:
      return MEASURED.has(attribute) ? measured(flow, attribute, bad) : plain(flow, attribute);
  }
}

/** Time to the first byte of the response without the check. Undefined unless it is above 0. */
function responseWithoutCheck(flow: FlowReport, bad: Bad): number | undefined {
  const response = measured(flow, "RESPONSE_DURATION", bad);
  const check = measured(flow, "authz_duration", bad);
  if (response === undefined || check === undefined || response <= check) return undefined;
  return response - check;
}

/** Time from a start to the end of the flow. */
function elapsed(
  flow: FlowReport,
  start: "flow_start" | "workload_start",
  bad: Bad,
): number | undefined {
  const from = timestamp(flow, start);
  const to = timestamp(flow, "flow_end");
  if (from === undefined || to === undefined) return undefined;
  return notNegative(to - from, bad);
}

/**
 * Unix ms. Newer SDKs name the unit; older ones mean nanoseconds by the name without it, and the plugin means
 * milliseconds.
 */
function timestamp(flow: FlowReport, point: string): number | undefined {
  const inMs = plain(flow, `aperture.${point}_timestamp_ms`);
  if (inMs !== undefined && flow.source === "sdk") return inMs;
  const other = plain(flow, `aperture.${point}_timestamp`);
  return other === undefined || flow.source === "lua" ? other : other / NS_PER_MS;
}

function measured(flow: FlowReport, attribute: string, bad: Bad): number | undefined {
  const value = plain(flow, attribute);
  return value === undefined ? undefined : notNegative(value, bad);
}

function notNegative(value: number, bad: Bad): number | undefined {
  if (value >= 0) return value;
  bad();
  return undefined;
}

function plain(flow: FlowReport, name: string): number | undefined {
  const number = flow.number(name);
  return number !== undefined && Number.isFinite(number) ? number : undefined;
}
