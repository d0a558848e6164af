// HTTP statuses that a policy can choose for refused requests, by name.

import { STATUS_NAMES } from "#base/http/status.ts";
import { about, enumeration } from "./field.ts";

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** Statuses below 400 tell the client that nothing went wrong. `Empty` is 0. */
function remark(status: number): string | undefined {
  return status > 0 && status < 400
    ? `a refusal with status ${status} does not look like one: use a status from 400 on`
    : undefined;
}

/** Absent and `Empty` both leave the status to the stage that refuses, which then answers `usual`. */
export const statusCode = (usual: string) =>
  about(
    `HTTP status of a refusal. Default: ${usual}.`,
    enumeration({ name: "StatusCode", numbers: NUMBERS, remark }),
  );
