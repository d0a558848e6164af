// Tables of text for people: columns as wide as their longest cell.

import { printable } from "#base/text/printable.ts";

export function tableText(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  return all
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}`.trimEnd())
    .join("\n")
    .concat("\n");
}
