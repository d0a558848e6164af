// Expiry of the port's certificates. An expired certificate is refused; one that will expire soon is logged once a day.

import { X509Certificate } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";

/** Warnings begin this long ahead, ms, or at this share of a shorter lifetime: by then it should be renewed. */
const WARN_MS = 14 * 86_400_000;
const WARN_SHARE = 1 / 5;
const WARN_EVERY_MS = 86_400_000;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Both are infinite without a readable certificate. */
export interface Expiry {
  /** Unix ms. */
  readonly expiresAt: number;
  /** From the beginning of its validity to the end, ms. */
  readonly lifetime: number;
}

/** The first expiry in a chain, which is useless once one of its certificates has expired. */
export function expiryOf(pem: string): Expiry {
  let first: Expiry = { expiresAt: Number.POSITIVE_INFINITY, lifetime: Number.POSITIVE_INFINITY };
  for (const [block] of pem.matchAll(CERTIFICATE)) {
    const { validFromDate, validToDate } = new X509Certificate(block);
    const expiresAt = validToDate.getTime();
    if (expiresAt < first.expiresAt)
      first = { expiresAt, lifetime: expiresAt - validFromDate.getTime() };
  }
  return first;
}

/** Warns while the certificate in use is about to expire. */
export class ExpiryReminder {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #file: string;
  /** On the monotonic clock. */
  #quietUntil = Number.NEGATIVE_INFINITY;

  constructor(file: string, clock: Clock, log: Log) {
    this.#file = file;
    this.#clock = clock;
    this.#log = log;
  }

  /** Called repeatedly with the expiry of the certificate in use. */
  remind({ expiresAt, lifetime }: Expiry): void {
    const left = expiresAt - this.#clock.wall();
    if (left > Math.min(WARN_MS, lifetime * WARN_SHARE) || this.#clock.now() < this.#quietUntil)
      return;
    this.#quietUntil = this.#clock.now() + WARN_EVERY_MS;
    this.#log.warn(
      { file: this.#file, expires: new Date(expiresAt).toISOString() },
      `the certificate ${this.#file} ${whenOf(left)}`,
    );
  }
}

/** `left` is in ms. */
function whenOf(left: number): string {
  if (left <= 0) return "has expired";
  const [days, hours] = [Math.floor(left / 86_400_000), Math.floor(left / 3_600_000)];
  if (days > 1) return `expires in ${days} days`;
  return hours > 1 ? `expires in ${hours} hours` : "expires within two hours";
}
