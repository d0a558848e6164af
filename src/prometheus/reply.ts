// What a Prometheus server answers to an instant query: results as the query language's, errors as Faults
// whose code says whether asking again can help.

import { Fault } from "#base/fault.ts";
import type { Labels, Result, Sample } from "#promql/result.ts";

interface Reading {
  readonly result: Result;
  /** What the server remarks on a query that it answered. */
  readonly warnings: readonly string[];
}

/** Throws a Fault for replies that are no answer. */
export function readReply(status: number, body: Buffer): Reading {
  const reply = parsed(body);
  if (status >= 200 && status < 300 && reply?.["status"] === "success") {
    const warnings = [...texts(reply["warnings"]), ...texts(reply["infos"])];
    return { result: resultOf(reply["data"]), warnings };
  }
  throw refusal(status, reply);
}

/** Is this a failure that may be over in a moment? */
export function mayPass(fault: Fault): boolean {
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

const MOST_WORDS = 300;

function refusal(status: number, reply: Json | undefined): Fault {
  const type = reply?.["errorType"];
  const said = reply?.["error"];
  const words = typeof said === "string" ? `: ${said.slice(0, MOST_WORDS)}` : "";
  const message = `the metrics server answered ${status}${typeof type === "string" ? ` ${type}` : ""}${words}`;
  if (type === "timeout") return new Fault("DEADLINE_EXCEEDED", message);
  if (type === "canceled" || status >= 500 || status === 429) {
    return new Fault("UNAVAILABLE", message);
  }
  if (reply === undefined && status < 300) return notAnAnswer("an object of JSON");
  return new Fault(
    status === 401 || status === 403 ? "PERMISSION_DENIED" : "INVALID_ARGUMENT",
    message,
  );
}

function notAnAnswer(wanted: string): Fault {
  return new Fault("INTERNAL", `the metrics server's reply is no answer: wanted ${wanted}`);
}

function resultOf(data: unknown): Result {
  const { resultType: type, result } = objectOf(data) ?? {};
  if (type === "scalar") return { kind: "scalar", value: numberOf(pairOf(result)) };
  if (type === "string") return { kind: "string", value: pairOf(result) };
  if (!Array.isArray(result)) throw notAnAnswer("data with resultType and result");
  if (type === "matrix") return { kind: "matrix", series: result.length };
  if (type !== "vector") throw notAnAnswer("a scalar, string, vector or matrix");
  return { kind: "vector", samples: result.map(sampleOf) };
}

function sampleOf(given: unknown): Sample {
  const { metric, value } = objectOf(given) ?? {};
  if (value === undefined) throw notAnAnswer("samples that are numbers, got a histogram");
  return { labels: labelsOf(metric), value: numberOf(pairOf(value)) };
}

function labelsOf(metric: unknown): Labels {
  const labels = Object.entries(objectOf(metric) ?? {});
  if (!labels.every((pair): pair is [string, string] => typeof pair[1] === "string")) {
    throw notAnAnswer("labels that are text");
  }
  // A label may be called like a member that every object has.
  return Object.assign(Object.create(null), Object.fromEntries(labels));
}

/** `[time, "value"]`. */
function pairOf(pair: unknown): string {
  const value: unknown = Array.isArray(pair) && pair.length === 2 ? pair[1] : undefined;
  if (typeof value !== "string") throw notAnAnswer("a time and a value as text");
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
  if (Number.isNaN(value)) throw notAnAnswer("a value that is a number");
  return value;
}
