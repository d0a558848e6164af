// A row of the table of metrics.

export type MetricType = "counter" | "gauge" | "histogram" | "summary";

export interface MetricRow {
  readonly type: MetricType;
  readonly labels: readonly string[];
  /** Meaning and unit, for the reference page and for HELP. */
  readonly about: string;
}

export type MetricTable = Readonly<Record<string, MetricRow>>;
