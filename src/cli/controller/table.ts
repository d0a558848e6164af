// Tables of text for people: columns as wide as their longest cell.

import { printable } from "#base/text/printable.ts";

/** `empty` is the text without any row. */
export function tableText(
  empty: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  if (rows.length === 0) return `${empty}\n`;
  const all = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  return all
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}`.trimEnd())
    .join("\n")
    .concat("\n");
}
