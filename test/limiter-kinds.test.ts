// Counts the source files that name a limiter kind, so that the number of places to touch when a kind is added
// can only fall.
//
// A file names a kind when one of its identifiers or strings (not a comment) contains the kind's name in any
// spelling: `rate_limiter`, `rateLimiter`, `RateLimiterState`, an import of `rate-limiter.ts`. `all` counts every such
// file. `shared` leaves out the files that belong to one kind (`rate-limiter.ts` in any room, or the
// `quota-scheduler.ts` of a kind that contains a rate limiter): it is the number of files that somebody who adds
// a kind has to edit, while the others are files to add. Two places are not counted, because they list every kind by
// nature: the tables of the policy language.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";
import ts from "typescript";
import { parse } from "./lint/module-state.ts";

interface Count {
  /** Files that name the kind, its own files included. */
  readonly all: number;
  /** Those of them that serve several kinds. */
  readonly shared: number;
}

/** The most files that may name each kind. Lower a number when it can be lowered; never raise it. */
const MAX_FILES: Readonly<Record<string, Count>> = {
  rate_limiter: { all: 12, shared: 10 },
  concurrency_limiter: { all: 12, shared: 10 },
  sampler: { all: 13, shared: 10 },
  load_scheduler: { all: 12, shared: 9 },
  quota_scheduler: { all: 11, shared: 10 },
  concurrency_scheduler: { all: 12, shared: 10 },
};

const NOT_COUNTED = [/^src\/policy\/language\//];

const sources = globSync("src/**/*.ts")
  .filter((file) => !NOT_COUNTED.some((pattern) => pattern.test(file)))
  .map((file) => ({ file, code: names(file) }));

/** Names of files that belong to one kind. A load ramp is a composite of its own, around a sampler. */
const OWN: ReadonlySet<string> = new Set(
  [...Object.keys(MAX_FILES), "load_ramp"].map((kind) => `${kind.replaceAll("_", "-")}.ts`),
);

for (const [kind, most] of Object.entries(MAX_FILES)) {
  test(`at most ${most.all} files name ${kind}, ${most.shared} of them shared with other kinds`, (t) => {
    const spelling = new RegExp(kind.replaceAll("_", "[_-]?"), "i");
    const naming = sources.filter(({ code }) => spelling.test(code)).map(({ file }) => file);
    assert.ok(naming.length > 0, `no file names ${kind}`);
    const shared = naming.filter((file) => !OWN.has(basename(file)));
    t.diagnostic(`${naming.length} files, ${shared.length} shared:\n${naming.join("\n")}`);
    const list = `\n${naming.join("\n")}`;
    const found: Count = { all: naming.length, shared: shared.length };
    assert.ok(
      found.all <= most.all && found.shared <= most.shared,
      `more files name ${kind}:${list}`,
    );
    assert.deepEqual(found, most, `fewer files name ${kind}: lower its numbers in MAX_FILES`);
  });
}

/** Identifiers, strings and template texts of a source file, one a line. Comments are left out. */
function names(file: string): string {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const literal = ts.isLiteralExpression(node) || ts.isTemplateMiddleOrTemplateTail(node);
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node) || ts.isTemplateHead(node) || literal)
      found.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(parse(file, readFileSync(file, "utf8")));
  return found.join("\n");
}
