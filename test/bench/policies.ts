// The policies that the bench's servers run: one that every check meets, and many that no check meets.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CONTROL_POINT } from "./requests.ts";

/**
 * Never refuses: a refusal is cheaper in one place and dearer in another, and would blur what is measured.
 * Fills slowly: a bucket that is full again is forgotten, and keys would cost nothing.
 */
function policy(name: string, controlPoint: string): string {
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
              bucket_capacity: { constant_signal: { value: 1000000 } }
              fill_amount: { constant_signal: { value: 1 } }
            parameters:
              interval: 3600s
              limit_by_label_key: http.request.header.user_id
`;
}

export interface Folders {
  readonly root: string;
  /** One policy, at the control point of the checks. */
  readonly one: string;
  /** The same one, and many at other control points. */
  readonly many: string;
  remove(): void;
}

export function writePolicies(others: number): Folders {
  const root = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const one = join(root, "one");
  const many = join(root, "many");
  for (const folder of [one, many]) {
    mkdirSync(folder);
    writeFileSync(join(folder, "per-user.yaml"), policy("per-user", CONTROL_POINT));
  }
  for (let index = 0; index < others; index++) {
    const name = `other-${index}`;
    writeFileSync(join(many, `${name}.yaml`), policy(name, name));
  }
  return { root, one, many, remove: () => rmSync(root, { recursive: true, force: true }) };
}
