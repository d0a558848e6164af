// The `grpc-timeout` header: the time that a caller waits. gRPC and JSON callers send the same form; each protocol
// refuses malformed values in its own way.

import { Fault } from "#base/fault.ts";

const TIMEOUT = /^([0-9]{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Milliseconds, up to more than ten thousand years; undefined if the text is malformed. */
export function parseTimeout(text: string): number | undefined {
  const [, digits, unit = ""] = TIMEOUT.exec(text) ?? [];
  return digits === undefined ? undefined : Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
}

/**
 * For JSON callers. A malformed header means no limit if it was `forwarded` by a gateway.
 * @throws Fault INVALID_ARGUMENT for any other malformed header
 */
export function timeoutOf(header: string | string[], forwarded: boolean): number {
  const ms = parseTimeout(String(header));
  if (ms !== undefined) return ms;
  if (forwarded) return Number.POSITIVE_INFINITY;
  throw new Fault("INVALID_ARGUMENT", "grpc-timeout must be 1 to 8 digits and one of H M S m u n");
}
