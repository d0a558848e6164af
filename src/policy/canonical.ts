// Canonical JSON of validated documents: documents with the same meaning give the same text, whatever their key
// order, syntax or spelled-out defaults. The policy hash is computed from it.

export function canonicalJson(value: unknown): string {
  if (typeof value === "bigint") return `"${value}"`;
  // `String(-0)` is "0": both zeros mean the same.
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : `"${value}"`;
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  const members = entries
    .filter(([, inner]) => inner !== undefined)
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`);
  return `{${members.sort().join(",")}}`;
}
