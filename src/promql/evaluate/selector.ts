// Compiles a selector to a predicate on labels. Thousands of policies have selectors of their own, so a compiled one
// is small: an equality needs no function.

import type { Labels } from "../result.ts";
import { type Matcher, NAME_LABEL, type Selector } from "../syntax/ast.ts";
import { compileMatcher } from "../syntax/matchers.ts";
import { inOrder } from "./labels.ts";

interface LabelTest {
  readonly name: string;
  readonly value: string;
  /** Undefined where the label must equal `value`. */
  readonly test: ((value: string) => boolean) | undefined;
}

export class CompiledSelector {
  /** The only metric name that matches, if there is just one. */
  readonly name: string | undefined;
  /** Tests of the metric name; empty where `name` decides alone. */
  readonly #onName: readonly LabelTest[];
  readonly #onLabels: readonly LabelTest[];

  constructor(
    name: string | undefined,
    onName: readonly LabelTest[],
    onLabels: readonly LabelTest[],
  ) {
    this.name = name;
    this.#onName = onName;
    this.#onLabels = onLabels;
  }

  fitsName(name: string): boolean {
    if (this.name !== undefined && name !== this.name) return false;
    return this.#onName.every((each) => passes(each, name));
  }

  fits(labels: Labels): boolean {
    if (!this.fitsName(labels[NAME_LABEL] ?? "")) return false;
    return this.#onLabels.every((each) => passes(each, labels[each.name] ?? ""));
  }

  /** Labels with a single equality matcher. As on a server, a second matcher on a label removes it. */
  equalLabels(): Labels {
    const found: Record<string, string> = Object.create(null);
    const given = new Set<string>();
    for (const { name, value, test } of this.#onLabels) {
      if (test === undefined && !given.has(name)) {
        found[name] = value;
        given.add(name);
      } else delete found[name];
    }
    return inOrder(found);
  }
}

/** Shared by all selectors without tests of the metric name. */
const NO_TESTS: readonly LabelTest[] = [];

/** Throws when an expression is not valid RE2. */
export function compileSelector({ name, matchers }: Selector): CompiledSelector {
  const all = matchers.map(labelTest);
  const onName = all.filter((test) => test.name === NAME_LABEL);
  const exact = onName.find(({ test }) => test === undefined)?.value;
  return new CompiledSelector(
    name === "" ? exact : name,
    name === "" && onName.length > 0 ? onName : NO_TESTS,
    onName.length > 0 ? all.filter((test) => test.name !== NAME_LABEL) : all,
  );
}

function labelTest(matcher: Matcher): LabelTest {
  const { name, op, value } = matcher;
  return { name, value, test: op === "=" ? undefined : compileMatcher(matcher) };
}

function passes({ value, test }: LabelTest, other: string): boolean {
  return test === undefined ? other === value : test(other);
}
