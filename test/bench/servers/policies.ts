// Writes the policy directories that the bench's servers run: limiters that every check meets, and limiters that
// no check meets.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CONTROL_POINT } from "../load/requests.ts";

/** Number of policies in the folder `ten`. */
export const MATCHING = 10;

/**
 * A policy with one rate limiter keyed by a header. Its limit is never reached: a refusal takes another path
 * than an acceptance and would blur the figures. Its buckets fill slowly: a bucket that is full again is
 * forgotten, and keys would seem to cost no memory, unless they are given another fill.
 */
export function policy(
  name: string,
  controlPoint: string,
  { capacity = 1_000_000, fill = 1, interval = "3600s" } = {},
): string {
  return `apiVersion: fluxninja.com/v1alpha1
kind: Policy
metadata:
  name: ${name}
spec:
  circuit:
    components:
      - flow_control:
          rate_limiter:
            selectors:
              - control_point: ${controlPoint}
            in_ports:
              bucket_capacity: { constant_signal: { value: ${capacity} } }
              fill_amount: { constant_signal: { value: ${fill} } }
            parameters:
              interval: ${interval}
              limit_by_label_key: http.request.header.user_id
`;
}

/** Directories of policies; each is a variant for one server. */
export interface Folders {
  readonly root: string;
  /** One policy, at the control point of the checks. */
  readonly one: string;
  /** Ten policies, all at the control point of the checks. */
  readonly ten: string;
  /** One policy at the control point of the checks, and many at other control points. */
  readonly many: string;
  remove(): void;
}

/** Writes all directories; `others` is the number of policies that no check meets in `many`. */
export function writePolicies(others: number): Folders {
  const root = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const [one, ten, many] = [join(root, "one"), join(root, "ten"), join(root, "many")];
  for (const folder of [one, ten, many]) mkdirSync(folder);
  for (const folder of [one, many])
    writeFileSync(join(folder, "per-user.yaml"), policy("per-user", CONTROL_POINT));
  for (let index = 0; index < MATCHING; index++) {
    const name = `per-user-${index}`;
    writeFileSync(join(ten, `${name}.yaml`), policy(name, CONTROL_POINT));
  }
  for (let index = 0; index < others; index++) {
    const name = `other-${index}`;
    writeFileSync(join(many, `${name}.yaml`), policy(name, name));
  }
  return { root, one, ten, many, remove: () => rmSync(root, { recursive: true, force: true }) };
}
