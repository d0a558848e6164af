// HTTP statuses that a policy can choose for refused requests, by name.

import { STATUS_NAMES } from "#base/http-status.ts";
import { about, enumeration } from "./field.ts";

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** Absent and `Empty` both leave the status to the stage that refuses, which then answers `usual`. */
export const statusCode = (usual: string) =>
  about(`HTTP status of a refusal. Default: ${usual}.`, enumeration("StatusCode", NUMBERS));
