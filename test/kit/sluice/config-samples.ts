// Values for every kind of row, derived from the row itself: ones that must pass and ones that must not.

import type { LeafRow } from "#config/table/row.ts";
import { samplesOf } from "./format-samples.ts";

export interface Sample {
  /** As a file holds it. */
  readonly raw: unknown;
  /** As a variable holds it. */
  readonly text: string;
  /** As the typed tree holds it; absent for a bad sample. */
  readonly value?: unknown;
}

function json(raw: unknown, value?: unknown): Sample {
  return { raw, text: JSON.stringify(raw), ...(value === undefined ? {} : { value }) };
}

/** Values that the row must take. Rules between keys may still object. */
export function goodSamples(row: LeafRow): readonly Sample[] {
  switch (row.kind) {
    case "bool":
      return [json(true, true), json(false, false)];
    case "number": {
      const values = [row.min, row.max, row.default].filter((value) => Math.abs(value) <= 2 ** 53);
      return values.map((value) => json(value, value));
    }
    case "string":
      return samplesOf(row.format).good.map((text) => ({ raw: text, text, value: text }));
    case "choice":
      return row.values.map((text) => ({ raw: text, text, value: text }));
    case "duration":
      return [
        row.most === undefined
          ? { raw: "1m30s", text: "1m30s", value: 90_000 }
          : { raw: "30s", text: "30s", value: 30_000 },
        { raw: "11s500ms", text: "11s500ms", value: 11_500 },
        ...(row.least === "any" ? [{ raw: "-1s", text: "-1s", value: -1_000 }] : []),
        ...(row.least === "0s" ? [{ raw: 0, text: "0", value: 0 }] : []),
      ];
    case "strings":
      return [
        json([], []),
        json(samplesOf(row.format).good.slice(0, 2), samplesOf(row.format).good.slice(0, 2)),
      ];
    case "floats":
      return [json([], []), json([0.25, 0.5], [0.25, 0.5])];
    case "headers":
      return [json({ "x-one": ["a", "b"] }, { "X-One": ["a", "b"] })];
    case "objects":
      return [json([], [])];
  }
}

/** Values that the row must refuse, from a file and from a variable. */
export function badSamples(row: LeafRow): readonly Sample[] {
  switch (row.kind) {
    case "bool":
      return [
        { raw: "yes", text: "yes" },
        { raw: 1, text: "on" },
      ];
    case "number":
      return [
        { raw: "1", text: "1x" },
        { raw: true, text: "" },
        ...(Math.abs(row.min) < 2 ** 53 ? [json(row.min - 1)] : []),
        ...(Math.abs(row.max) < 2 ** 53 ? [json(row.max + 1)] : []),
        ...(row.type === "float64" ? [] : [json(1.5)]),
      ];
    case "string":
      return samplesOf(row.format).bad.map((text) => ({ raw: text, text }));
    case "choice":
      return [
        { raw: "nOnE", text: "nOnE" },
        { raw: 1, text: "1" },
      ];
    case "duration":
      return [
        { raw: "10", text: "10" },
        { raw: 10, text: "1 s" },
        { raw: "577h", text: "577h" },
        ...(row.least === "any" ? [] : [{ raw: "-1s", text: "-1s" }]),
        ...(row.least === "above 0s" ? [{ raw: 0, text: "0" }] : []),
        ...(row.least === "1s" ? [{ raw: "999ms", text: "999ms" }] : []),
        ...(row.least === "10s" ? [{ raw: "9999ms", text: "9999ms" }] : []),
      ];
    case "strings":
      return [
        { raw: "a", text: "[a" },
        { raw: [1], text: '["a"' },
      ];
    case "floats":
      return [
        { raw: 1, text: "1]" },
        { raw: [2, 1], text: "[0.2,0.1]" },
        { raw: ["a"], text: "[a]" },
      ];
    case "headers":
      return [json({ "x one": ["a"] }), json({ x: "a" }), json([])];
    case "objects":
      return [json({}), json([{ not_a_key: 1 }]), json([null])];
  }
}
