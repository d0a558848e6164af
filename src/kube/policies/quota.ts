// Which resources of a namespace are beyond its quota: the youngest, so that a new policy never displaces one that runs.

import type { PolicyResource } from "./resource.ts";

/** Names of the policies beyond the quota. Policies of the `own` namespace have none. */
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

/** Times of the API are whole seconds, in which names decide. */
function ageOf({ created, policy }: PolicyResource): string {
  return `${created} ${policy}`;
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
