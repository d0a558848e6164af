// The statuses that a policy may answer a refused caller with, by name.

import { STATUS_NAMES } from "#base/http-status.ts";
import { named } from "./field.ts";

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** 0 (absent) leaves the status to the stage that refuses. */
export const statusCode = () => named("StatusCode", NUMBERS);
