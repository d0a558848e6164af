// The statuses that a policy may answer a refused caller with, by name.

import { STATUS_NAMES } from "#base/http-status.ts";
import { about, named } from "./field.ts";

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/**
 * Absent and `Empty` both leave the status to the stage that refuses, so that a reply's status does not depend
 * on who wrote the policy. `usual` is what that stage answers then.
 */
export const statusCode = (usual: string) =>
  about(
    `HTTP status that a refused caller gets; unless told, ${usual}.`,
    named("StatusCode", NUMBERS),
  );
