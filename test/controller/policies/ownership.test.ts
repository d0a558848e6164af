// The owner of a name that several sources want: one row for each situation.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  assignOwners,
  type RunningPolicy,
  type SourceCandidates,
} from "#controller/policies/ownership.ts";
import type { PolicyCandidate, PolicyOrigin } from "#controller/policy-source.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";

/** A policy with these flux meters. `hash` tells versions apart. */
function policy(name: string, fluxMeters: readonly string[] = [], hash = "1"): CompiledPolicy {
  return {
    source: `${name}.yaml`,
    name,
    hash,
    at: { line: 1, column: 1 },
    document: { circuit: undefined, resources: undefined },
    dynamicConfig: undefined,
    circuit: undefined,
    configs: fluxMeters.map((meter) => ({
      kind: "flux_meter",
      name: meter,
      agentGroups: ["default"],
      message: {},
    })),
    warnings: [],
    needs: [],
    supply: { labels: [], fluxMeters },
  };
}

/** `a.yaml: p` offers policy p of that file; `q(m)` is a policy with flux meter m, `q!` one with a fault. */
function candidates(text: string): readonly PolicyCandidate[] {
  return text.split("; ").flatMap((group): PolicyCandidate[] => {
    const [location = "", names = ""] = group.split(": ");
    return names.split(" ").flatMap((each): PolicyCandidate[] => {
      const [, name = "", meter, fault] = /^(\w+)(?:\((\w+)\))?(!)?$/.exec(each) ?? [];
      if (name === "") return [];
      const meters = meter === undefined ? [] : [meter];
      return [{ name, location, policy: fault === undefined ? policy(name, meters) : undefined }];
    });
  });
}

const FILES = (text: string): SourceCandidates => ({
  origin: "file",
  candidates: candidates(text),
});
const API = (text: string): SourceCandidates => ({ origin: "api", candidates: candidates(text) });

interface Row {
  readonly title: string;
  readonly files?: string;
  readonly api?: string;
  /** Policies that run, as `file p` or `api p(m)`. */
  readonly running?: readonly string[];
  /** Owners as `file p`, in order. */
  readonly owners: readonly string[];
  /** Left out, as location, name and a part of the reason. */
  readonly leftOut?: readonly (readonly [location: string, name: string, why: RegExp])[];
}

const ROWS: readonly Row[] = [
  {
    title: "different names do not disturb each other",
    files: "a.yaml: p",
    api: "k/q: q",
    owners: ["file p", "api q"],
  },
  {
    title: "of two policies that do not run yet, that of the file owns the name",
    files: "a.yaml: p",
    api: "k/p: p",
    owners: ["file p"],
    leftOut: [["k/p", "p", /^policy p: a policy of that name came from a file$/]],
  },
  {
    title: "a running policy of the API keeps its name from a file",
    files: "a.yaml: p",
    api: "k/p: p",
    running: ["api p"],
    owners: ["api p"],
    leftOut: [["a.yaml", "p", /^policy p: a policy of that name came over the API$/]],
  },
  {
    title: "a running policy that its source no longer offers keeps nothing",
    files: "a.yaml: p",
    running: ["api p"],
    owners: ["file p"],
  },
  {
    title: "a running policy of a file keeps its name from the API",
    files: "a.yaml: p",
    api: "k/p: p",
    running: ["file p"],
    owners: ["file p"],
    leftOut: [["k/p", "p", /came from a file/]],
  },
  {
    title: "all policies of a file are left out together, other files are not",
    files: "a.yaml: p q; b.yaml: r",
    api: "k/p: p",
    running: ["api p"],
    owners: ["file r", "api p"],
    leftOut: [
      ["a.yaml", "p", /policy p/],
      ["a.yaml", "q", /policy p/],
    ],
  },
  {
    title: "a running policy of the API keeps its flux meter from a file",
    files: "a.yaml: p(m)",
    api: "k/q: q(m)",
    running: ["api q(m)"],
    owners: ["api q"],
    leftOut: [["a.yaml", "p", /^flux meter m: policy q, which came over the API, has it$/]],
  },
  {
    title: "flux meters are those of the version that runs",
    files: "a.yaml: p(m)",
    api: "k/q: q(m)",
    running: ["api q"],
    owners: ["file p"],
    leftOut: [["k/q", "q", /flux meter name m/]],
  },
  {
    title: "a new policy of the API loses its flux meter to a file",
    files: "a.yaml: p(m)",
    api: "k/q: q(m)",
    owners: ["file p"],
    leftOut: [["k/q", "q", /flux meter name m in policy q and in policy p/]],
  },
  {
    title: "of two policies of the API with one flux meter, the one that runs owns it",
    api: "k/a: a(m); k/b: b(m)",
    running: ["api b(m)"],
    owners: ["api b"],
    leftOut: [["k/a", "a", /flux meter name m in policy a and in policy b/]],
  },
  {
    title: "the running version goes on where the new document has faults",
    api: "k/p: p!",
    running: ["api p"],
    owners: ["api p"],
  },
  {
    title:
      "a document with faults owns nothing where nothing runs, or where another source runs it",
    files: "a.yaml: q",
    api: "k/p: p!; k/q: q!",
    running: ["file q"],
    owners: ["file q"],
  },
  {
    title: "a document with faults keeps the name for the version that runs",
    files: "a.yaml: p",
    api: "k/p: p!",
    running: ["api p"],
    owners: ["api p"],
    leftOut: [["a.yaml", "p", /came over the API/]],
  },
];

function runningPolicies(running: readonly string[]): ReadonlyMap<string, RunningPolicy> {
  return new Map(
    running.map((text) => {
      const [origin = "", name = "", meter] = text.split(/[ ()]/);
      const meters = meter === undefined ? [] : [meter];
      return [name, { origin: origin as PolicyOrigin, policy: policy(name, meters, "running") }];
    }),
  );
}

for (const { title, files = "", api = "", running = [], owners, leftOut = [] } of ROWS) {
  test(title, () => {
    const found = assignOwners([FILES(files), API(api)], runningPolicies(running));
    const named = [...found.owners].map(([name, { origin }]) => `${origin} ${name}`);
    assert.deepEqual(named, owners);
    assert.deepEqual(
      found.leftOut.map(({ candidate }) => [candidate.location, candidate.name]),
      leftOut.map(([location, name]) => [location, name]),
    );
    for (const [at, [, , why]] of leftOut.entries()) {
      assert.match(found.leftOut[at]?.why ?? "", why);
    }
  });
}

test("where the new document has faults, the version that runs is the one that is owned", () => {
  const { owners } = assignOwners([FILES(""), API("k/p: p!")], runningPolicies(["api p"]));
  assert.equal(owners.get("p")?.policy.hash, "running");
});
