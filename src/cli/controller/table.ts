// Tables of text for people: columns as wide as their longest cell.

export function tableText(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  return all
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ")}`.trimEnd())
    .join("\n")
    .concat("\n");
}

/** Characters that a terminal would act on are shown as escapes. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (char) => JSON.stringify(char).slice(1, -1));
}
