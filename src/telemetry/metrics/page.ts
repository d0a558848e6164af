// Generates the reference page of metrics from the table.

import { METRICS } from "./table.ts";

/** The text of `docs/metrics.md`. */
export function metricsPage(): string {
  const lines = [
    "# Metrics",
    "",
    "<!-- Generated from src/telemetry/metrics/table.ts: node src/telemetry/metrics/page.ts > docs/metrics.md -->",
    "",
    "`GET /metrics` on the port of the process, and on `otel.ports.debug_port`. Text 0.0.4, or OpenMetrics 1.0.0 if the `Accept` header asks for it.",
    "A series appears with its first event. The series of a component or classifier disappear when it is removed from the plan.",
    "Decisions are counted once, when they are made.",
    "",
    "| Name | Type | Labels | Meaning |",
    "|---|---|---|---|",
  ];
  for (const [name, { type, labels, about }] of Object.entries(METRICS)) {
    const listed = labels.map((label) => `\`${label}\``).join(", ");
    lines.push(`| \`${name}\` | ${type} | ${listed} | ${about} |`);
  }
  lines.push(
    "",
    "Label values that callers choose are bounded. Control points beyond the first 1000, or with more than 256 characters, share the value `_other`; control points that a policy names always have their own series. Non-standard HTTP methods are `_other` too.",
    "",
    "`metrics.enable_go_metrics` adds `nodejs_*` (heap, garbage collection, event loop), `metrics.enable_process_collector` adds `process_*` (processor time, memory, file descriptors). With `metrics.pedantic` a sample that contradicts this table makes the scrape fail with 500 instead of being left out.",
    "",
  );
  return lines.join("\n");
}

if (import.meta.main) process.stdout.write(metricsPage());
