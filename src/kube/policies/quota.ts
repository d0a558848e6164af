// The resources that exceed the quota of their namespace: the youngest ones, so that a new policy never displaces a running
// one.

import type { PolicyResource } from "./resource.ts";

/** Names of the policies that exceed the quota. The `own` namespace has no quota. */
export function beyondQuota(
  resources: Iterable<PolicyResource>,
  own: string,
  quota: number,
): ReadonlySet<string> {
  const teams = Map.groupBy(resources, ({ namespace }) => namespace);
  teams.delete(own);
  return new Set(
    [...teams.values()].flatMap((all) =>
      all
        .toSorted((left, right) => compare(ageOf(left), ageOf(right)))
        .slice(quota)
        .map(({ policy }) => policy),
    ),
  );
}

/** Creation times are whole seconds; within a second the name decides. */
function ageOf({ created, policy }: PolicyResource): string {
  return `${created} ${policy}`;
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
