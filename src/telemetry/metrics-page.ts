// The reference page of metrics, made from the table.

import { METRICS } from "./metrics-table.ts";

/** The text of `docs/metrics.md`. */
export function metricsPage(): string {
  const lines = [
    "# Metrics",
    "",
    "<!-- Generated from src/telemetry/metrics-table.ts: node src/telemetry/metrics-page.ts > docs/metrics.md -->",
    "",
    "`GET /metrics` on the port of the process, and on `otel.ports.debug_port`. Text 0.0.4, or OpenMetrics 1.0.0 for those who ask for it.",
    "A series appears with its first event. Series of a component or classifier go when it is removed from the plan.",
    "Everything about decisions is counted once, when the decision is made.",
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
    "Label values that callers choose are bounded: beyond 1000 control points, or 256 characters, the rest share the value `_other`; control points that a policy names always keep their own. HTTP methods outside the standard are `_other` too.",
    "",
    "`metrics.enable_go_metrics` adds `nodejs_*` (heap, garbage collection, event loop), `metrics.enable_process_collector` adds `process_*` (processor time, memory, file descriptors). With `metrics.pedantic` a sample that contradicts this table makes the scrape fail with 500 instead of being left out.",
    "",
  );
  return lines.join("\n");
}

if (import.meta.main) process.stdout.write(metricsPage());
