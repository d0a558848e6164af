// Numbers of a document: as YAML and JSON write them, or as text in the form of protobuf JSON.

import type { Tree } from "./tree.ts";

/** Least and greatest value of each integer type. */
export const INTEGER_RANGES: Readonly<
  Record<"int32" | "uint32" | "int64", readonly [bigint, bigint]>
> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
};

const DECIMAL = /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const SPECIAL_NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};

/** The value of a number, or of text that denotes one in protobuf JSON (`"NaN"`, `"1e3"`); undefined for others. */
export function doubleOf(tree: Tree): number | undefined {
  if (tree.kind === "number") return Number.isFinite(tree.value) ? tree.value : undefined;
  if (tree.kind !== "text") return undefined;
  if (Object.hasOwn(SPECIAL_NUMBERS, tree.value)) return SPECIAL_NUMBERS[tree.value];
  if (!DECIMAL.test(tree.value)) return undefined;
  const value = Number(tree.value);
  return Number.isFinite(value) ? value : undefined;
}

/** The text of a number, which has all of its digits. */
export function digitsOf(tree: Tree): string | undefined {
  return tree.kind === "number" ? tree.source : tree.kind === "text" ? tree.value : undefined;
}

const WRITTEN = /^([-+]?)(\d+)(?:\.(\d*))?(?:[eE]([-+]?\d{1,2}))?$/;
const OTHER_BASE = /^0[xo][0-9a-f]+$/i;

/** Numbers of more characters are outside every integer type. */
const MAX_CHARACTERS = 100;

/** The exact whole number, as in `1.5e3`; undefined for any other number. */
export function integerOf(tree: Tree): bigint | undefined {
  const source = digitsOf(tree);
  if (source === undefined || source.length > MAX_CHARACTERS) return undefined;
  if (tree.kind === "number" && OTHER_BASE.test(source)) return BigInt(source.toLowerCase());
  const found = WRITTEN.exec(source);
  if (found === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = found;
  const digits = BigInt(whole + fraction);
  const shift = Number(exponent) - fraction.length;
  const scale = 10n ** BigInt(Math.abs(shift));
  if (shift < 0 && digits % scale !== 0n) return undefined;
  const size = shift < 0 ? digits / scale : digits * scale;
  return sign === "-" ? -size : size;
}
