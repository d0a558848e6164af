// The `grpc-timeout` header as JSON callers send it: how long they will wait.

import { Fault } from "#base/fault.ts";

const TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Milliseconds; Infinity when the header is absent. */
export function readTimeout(header: string | string[] | undefined): number {
  if (header === undefined) return Number.POSITIVE_INFINITY;
  const [, digits, unit = ""] = TIMEOUT.exec(String(header)) ?? [];
  if (digits === undefined) {
    throw new Fault(
      "INVALID_ARGUMENT",
      "grpc-timeout must be 1 to 8 digits and one of H M S m u n",
    );
  }
  return Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
}
