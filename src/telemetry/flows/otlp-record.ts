// Reports in OpenTelemetry's protocol: log records of proxies and spans of SDKs. Proxies send all numbers as text.

import { decimalOf } from "#base/text/decimal.ts";
import type { Attributes } from "#wire/otlp/records.ts";
import { type FlowReport, MISSING, type Source } from "./flow-report.ts";

const SOURCES: ReadonlySet<string> = new Set<Source>(["envoy", "lua", "sdk"]);

/** Undefined when the source is unknown. */
export function reportOfRecord(record: Attributes): FlowReport | undefined {
  const source = record.get("aperture.source");
  if (typeof source !== "string" || !SOURCES.has(source)) return undefined;
  return new OtlpRecord(source as Source, record);
}

class OtlpRecord implements FlowReport {
  readonly source: Source;
  readonly #record: Attributes;

  constructor(source: Source, record: Attributes) {
    this.source = source;
    this.#record = record;
  }

  get decision(): string {
    return this.#text("aperture.check_response");
  }

  get requestId(): string {
    return this.#text("x-request-id");
  }

  get controlPoint(): string {
    return this.#text("aperture.control_point");
  }

  get statusCode(): string {
    return this.#text("http.status_code");
  }

  get status(): string {
    return this.#text("aperture.flow.status");
  }

  /** A number, or one in decimal text. */
  number(name: string): number | undefined {
    const value = this.#record.get(name);
    return typeof value === "string" ? decimalOf(value) : value;
  }

  has(name: string): boolean {
    return (this.#record.get(name) ?? MISSING) !== MISSING;
  }

  #text(attribute: string): string {
    const value = String(this.#record.get(attribute) ?? "");
    return value === MISSING ? "" : value;
  }
}
