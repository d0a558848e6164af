// Decodes the response of a Prometheus server to an instant query: a result of the query language, or a Fault
// whose code says whether a retry can help.

import { Fault } from "#base/fault.ts";
import type { Labels, Result, Sample } from "#promql/result.ts";

interface InstantResult {
  readonly result: Result;
  /** Warnings and infos of the server about the query. */
  readonly warnings: readonly string[];
}

/** Throws a Fault for responses without a result. */
export function readResponse(status: number, body: Buffer): InstantResult {
  const reply = parsed(body);
  if (status >= 200 && status < 300 && reply?.["status"] === "success") {
    const warnings = [...texts(reply["warnings"]), ...texts(reply["infos"])];
    return { result: resultOf(reply["data"]), warnings };
  }
  throw refusal(status, reply);
}

/** Tells whether a retry may succeed. */
export function isTransient(fault: Fault): boolean {
  return fault.code === "UNAVAILABLE" || fault.code === "DEADLINE_EXCEEDED";
}

type Json = Readonly<Record<string, unknown>>;

function parsed(body: Buffer): Json | undefined {
  try {
    return objectOf(JSON.parse(body.toString("utf8")));
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Json | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Json)
    : undefined;
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

const MAX_ERROR_LENGTH = 300;

function refusal(status: number, reply: Json | undefined): Fault {
  const type = reply?.["errorType"];
  const error = reply?.["error"];
  const details = typeof error === "string" ? `: ${error.slice(0, MAX_ERROR_LENGTH)}` : "";
  const message = `the metrics server answered ${status}${typeof type === "string" ? ` ${type}` : ""}${details}`;
  if (type === "timeout") return new Fault("DEADLINE_EXCEEDED", message);
  if (type === "canceled" || status >= 500 || status === 429) {
    return new Fault("UNAVAILABLE", message);
  }
  if (reply === undefined && status < 300) return invalidResponse("a JSON object");
  return new Fault(
    status === 401 || status === 403 ? "PERMISSION_DENIED" : "INVALID_ARGUMENT",
    message,
  );
}

function invalidResponse(wanted: string): Fault {
  return new Fault("INTERNAL", `the metrics server sent an invalid response: wanted ${wanted}`);
}

function resultOf(data: unknown): Result {
  const { resultType: type, result } = objectOf(data) ?? {};
  if (type === "scalar") return { kind: "scalar", value: numberOf(pairOf(result)) };
  if (type === "string") return { kind: "string", value: pairOf(result) };
  if (!Array.isArray(result)) throw invalidResponse("data with resultType and result");
  if (type === "matrix") return { kind: "matrix", series: result.length };
  if (type !== "vector") throw invalidResponse("a scalar, string, vector or matrix");
  return { kind: "vector", samples: result.map(sampleOf) };
}

function sampleOf(given: unknown): Sample {
  const { metric, value } = objectOf(given) ?? {};
  if (value === undefined) throw invalidResponse("samples that are numbers, got a histogram");
  return { labels: labelsOf(metric), value: numberOf(pairOf(value)) };
}

function labelsOf(metric: unknown): Labels {
  const labels = Object.entries(objectOf(metric) ?? {});
  if (!labels.every((pair): pair is [string, string] => typeof pair[1] === "string")) {
    throw invalidResponse("text as label values");
  }
  // No prototype, because a label may have the name of a member of Object.prototype.
  return Object.assign(Object.create(null), Object.fromEntries(labels));
}

/** `[time, "value"]`. */
function pairOf(pair: unknown): string {
  const value: unknown = Array.isArray(pair) && pair.length === 2 ? pair[1] : undefined;
  if (typeof value !== "string") throw invalidResponse("a time and a value as text");
  return value;
}

const SPECIAL: ReadonlyMap<string, number> = new Map([
  ["NaN", Number.NaN],
  ["+Inf", Number.POSITIVE_INFINITY],
  ["Inf", Number.POSITIVE_INFINITY],
  ["-Inf", Number.NEGATIVE_INFINITY],
]);

function numberOf(text: string): number {
  const special = SPECIAL.get(text);
  if (special !== undefined) return special;
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isNaN(value)) throw invalidResponse("a number as value");
  return value;
}
