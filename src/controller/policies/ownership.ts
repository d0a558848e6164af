// Decides which source owns a policy name when several sources offer it. Flux meters have global names as well,
// so a policy can also lose to another one because of a flux meter. This is a pure function of the offered and the
// running policies.
//
// 1. A running policy keeps its name and flux meters as long as its source offers it. A policy of a source with
//    higher precedence that wants one of these names is left out, together with all policies of its location.
// 2. Otherwise the source with higher precedence owns the name.
// 3. What remains must fit together: names of flux meters and places in the store are unique. Of two policies
//    that do not fit, the one with lower precedence is left out, and within one source the one that does not
//    run yet.

import type { CompiledPolicy } from "#policy/compiled.ts";
import { findingLine } from "#policy/format.ts";
import { validateSet } from "#policy/set.ts";
import {
  POLICY_ORIGINS,
  type PolicyCandidate,
  type PolicyOrigin,
  type PolicyVersion,
} from "../policy-source.ts";

export interface SourceCandidates {
  readonly origin: PolicyOrigin;
  readonly candidates: readonly PolicyCandidate[];
}

export type RunningPolicy = Pick<PolicyVersion, "origin" | "policy">;

/** A candidate that has a version to run. */
export interface RunnableCandidate extends PolicyCandidate {
  readonly origin: PolicyOrigin;
  readonly policy: CompiledPolicy;
}

export interface LeftOut {
  readonly candidate: RunnableCandidate;
  readonly why: string;
}

export interface Ownership {
  /** By policy name, in order of precedence. */
  readonly owners: ReadonlyMap<string, RunnableCandidate>;
  readonly leftOut: readonly LeftOut[];
}

/** `sources` are in order of precedence, highest first; `running` is by policy name. */
export function assignOwners(
  sources: readonly SourceCandidates[],
  running: ReadonlyMap<string, RunningPolicy>,
): Ownership {
  const leftOut: LeftOut[] = [];
  const owners = new Map<string, RunnableCandidate>();
  for (const [precedence, source] of sources.entries()) {
    const held = heldNames(sources.slice(precedence + 1), running);
    const candidates = runnableOf(source, running);
    const losers = losingLocations(candidates, held);
    for (const candidate of candidates) {
      const owner = owners.get(candidate.name);
      const why =
        losers.get(candidate.location) ??
        (owner && sameName(candidate.name, POLICY_ORIGINS[owner.origin].came));
      if (why === undefined) owners.set(candidate.name, candidate);
      else leftOut.push({ candidate, why });
    }
  }
  const policies = [...owners.values()].map(({ location, policy }) => ({
    ...policy,
    source: location,
  }));
  for (const finding of validateSet(policies)) {
    for (const candidate of [...owners.values()]) {
      if (candidate.location !== finding.source) continue;
      owners.delete(candidate.name);
      leftOut.push({ candidate, why: findingLine(finding) });
    }
  }
  return { owners, leftOut };
}

/** The names that running policies of other sources occupy. */
interface HeldNames {
  readonly policies: ReadonlyMap<string, PolicyOrigin>;
  /** The policy that has each flux meter. */
  readonly fluxMeters: ReadonlyMap<
    string,
    { readonly policy: string; readonly origin: PolicyOrigin }
  >;
}

function heldNames(
  sources: readonly SourceCandidates[],
  running: ReadonlyMap<string, RunningPolicy>,
): HeldNames {
  const policies = new Map<string, PolicyOrigin>();
  const fluxMeters = new Map<string, { readonly policy: string; readonly origin: PolicyOrigin }>();
  for (const { origin, candidates } of sources) {
    for (const { name } of candidates) {
      const runningPolicy = running.get(name);
      if (runningPolicy?.origin !== origin || POLICY_ORIGINS[origin].yields) continue;
      policies.set(name, origin);
      for (const meter of fluxMetersOf(runningPolicy.policy)) {
        fluxMeters.set(meter, { policy: name, origin });
      }
    }
  }
  return { policies, fluxMeters };
}

/** Running policies first. Where a document has faults, the version that runs goes on. */
function runnableOf(
  { origin, candidates }: SourceCandidates,
  running: ReadonlyMap<string, RunningPolicy>,
): readonly RunnableCandidate[] {
  const first: RunnableCandidate[] = [];
  const others: RunnableCandidate[] = [];
  for (const { name, location, policy } of candidates) {
    const incumbent = running.get(name);
    const runs = incumbent?.origin === origin;
    const wanted = policy ?? (runs ? incumbent.policy : undefined);
    if (wanted !== undefined) {
      (runs ? first : others).push({ origin, name, location, policy: wanted });
    }
  }
  return [...first, ...others];
}

/** Reasons why no policy of a location can run, by location. */
function losingLocations(
  candidates: readonly RunnableCandidate[],
  { policies, fluxMeters }: HeldNames,
): ReadonlyMap<string, string> {
  const losers = new Map<string, string>();
  for (const { name, location, policy } of candidates) {
    const holder = policies.get(name);
    if (holder !== undefined) losers.set(location, sameName(name, POLICY_ORIGINS[holder].came));
    else {
      const meter = fluxMetersOf(policy).find((each) => fluxMeters.has(each));
      const by = meter === undefined ? undefined : fluxMeters.get(meter);
      if (by === undefined) continue;
      const { came } = POLICY_ORIGINS[by.origin];
      losers.set(location, `flux meter ${meter}: policy ${by.policy}, which came ${came}, has it`);
    }
  }
  return losers;
}

function sameName(name: string, came: string): string {
  return `policy ${name}: a policy of that name came ${came}`;
}

function fluxMetersOf({ configs }: CompiledPolicy): readonly string[] {
  return configs.flatMap(({ kind, name }) => (kind === "flux_meter" ? [name] : []));
}
