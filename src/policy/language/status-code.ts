// The statuses that a policy may answer a refused caller with, by name.

import { STATUS_NAMES } from "#base/http-status.ts";
import { about, named } from "./field.ts";

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** `Empty` leaves the status to the stage that refuses. */
export const statusCode = (value: string) =>
  about("HTTP status that a refused caller gets.", named("StatusCode", NUMBERS, value));
