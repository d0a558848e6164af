// Documents made to be expensive for their size: findings stay bounded, and validation takes time in proportion to
// the size, because a controller validates documents of callers in the process that does everything else.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Report } from "#policy/document/finding.ts";
import { findingLine, warningLine } from "#policy/format.ts";
import { circuit, growth, judged } from "../kit.ts";

const list = (count: number, make: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => make(at)).join("");

const wrapped = (config: string, ...components: readonly string[]): string =>
  `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: d}\ndynamicConfig: ${config}\nspec:\n${circuit(...components).replaceAll(/^/gm, "  ")}`;

const variables = (count: number): string[] =>
  Array.from(
    { length: count },
    (_, at) => `variable: {constant_output: {value: 1}, config_key: limit${at}}`,
  );

const classifier = (rego: string): string =>
  `resources: {flow_control: {classifiers: [{selectors: [{control_point: x}], rego: ${rego}}]}}`;

const meter = (selectors: string): string =>
  `resources: {flow_control: {flux_meters: {a: {selectors: [${selectors}]}}}}`;

const matching = (regex: string): string =>
  `{control_point: x, label_matcher: {expression: {label_matches: {label: a, regex: '${regex}'}}}}`;

/** Generators of texts by size; `from` is the smaller size at which time is measured. */
const SHAPES: Readonly<Record<string, { from: number; make: (size: number) => string }>> = {
  "aliases of one anchor": {
    from: 1_000,
    make: (size) => `a: &x 1\nc: [${list(size, () => "*x,")}]`,
  },
  "anchors, each with an alias": {
    from: 600,
    make: (size) => list(size, (at) => `a${at}: &x${at} 1\nb${at}: *x${at}\n`),
  },
  "aliases of nothing": { from: 1_000, make: (size) => `c: [${list(size, () => "*x,")}]` },
  "digits and underscores that are no number": {
    from: 20_000,
    make: (size) => `a: ${"1_".repeat(size)}x`,
  },
  "unknown keys": { from: 2_000, make: (size) => list(size, (at) => `key${at}: 1\n`) },
  "one key again and again": { from: 2_000, make: (size) => list(size, () => "k: 1\n") },
  "documents at fault": { from: 400, make: (size) => list(size, () => "---\na: 1\n") },
  "documents of one name": { from: 400, make: (size) => list(size, () => "---\ncircuit: {}\n") },
  "components at fault": {
    from: 400,
    make: (size) => circuit(...Array.from({ length: size }, () => "decider: {operator: is}")),
  },
  "signals that nobody writes": {
    from: 200,
    make: (size) =>
      circuit(
        ...Array.from(
          { length: size },
          (_, at) => `max: {in_ports: {inputs: [{signal_name: a${at}}]}}`,
        ),
      ),
  },
  "ports that nothing inside has": {
    from: 1_000,
    make: (size) =>
      circuit(
        `nested_circuit: {components: [], in_ports_map: {${list(size, (at) => `p${at}: {},`)}}}`,
      ),
  },
  "dynamic configuration that nobody reads": {
    from: 200,
    make: (size) => wrapped(`{${list(size, (at) => `limix${at}: 1,`)}}`, ...variables(size)),
  },
  "dynamic configuration of the wrong form": {
    from: 200,
    make: (size) => wrapped(`{${list(size, (at) => `limit${at}: 1,`)}}`, ...variables(size)),
  },
  "a key of many parts": {
    from: 20_000,
    make: (size) =>
      wrapped("{x: 1}", `bool_variable: {config_key: "${"a.".repeat(size)}a"}`, ...variables(200)),
  },
  "rules of a module": {
    from: 8_000,
    make: (size) =>
      classifier(`{labels: {a: {}}, module: "package x\\n${"a = 1\\n".repeat(size)}"}`),
  },
  "labels that a module does not define": {
    from: 1_000,
    make: (size) =>
      classifier(`{labels: {${list(size, (at) => `l${at}: {},`)}}, module: "package x\\nz = 1"}`),
  },
};

describe("however large a document is", () => {
  for (const [name, { from, make }] of Object.entries(SHAPES)) {
    test(`${name}: time goes with size`, () => {
      const ratio = growth(make, from);
      assert.ok(ratio < 10, `four times the input took ${ratio.toFixed(1)} times as long`);
    });
    test(`${name}: findings are bounded`, () => {
      const { findings, warnings } = judged(make(from));
      const lines = [...findings.map(findingLine), ...warnings.map(warningLine)];
      assert.ok(lines.length > 0 && findings.length <= 101 && warnings.length <= 101);
      assert.ok(lines.join("\n").length < 50_000);
    });
  }
});

describe("findings of one text", () => {
  const said = (count: number) => {
    const report = new Report();
    for (let at = count; at > 0; at--) {
      const place = { line: at, column: 1 };
      report.refuse(place, [], "x", "y");
      report.warn("unusual_value", place, [], "z");
    }
    return report;
  };

  test("the first hundred are listed in the order of the text", () => {
    const { findings, warnings, full } = said(100);
    const wanted = Array.from({ length: 100 }, (_, at) => at + 1);
    assert.deepEqual([findings.map(({ at }) => at.line), full], [wanted, true]);
    assert.deepEqual(
      warnings.map(({ at }) => at.line),
      wanted,
    );
    assert.equal(said(99).full, false);
  });

  test("further ones are counted in a last line", () => {
    const { findings, warnings, faults } = said(137);
    assert.deepEqual([findings.length, warnings.length, faults], [101, 101, 137]);
    assert.equal(findings.at(-1)?.got, "these and 37 more");
    assert.equal(warnings.at(-1)?.text, "these and 37 more");
  });

  test("positions are looked up only for findings that are kept", () => {
    const report = new Report();
    let looked = 0;
    const place = () => {
      looked += 1;
      return { line: 1, column: 1 };
    };
    for (let at = 0; at < 1_000; at++) {
      report.refuse(place, ["a"], "x", "y");
      report.warn("unusual_value", place, ["a"], "z");
    }
    assert.equal(looked, 200);
  });

  test("several documents in one text share the bound, also for duplicate names", () => {
    const found = judged(`${list(60, () => "circuit: {}\n---\n")}${list(60, () => "a: 1\n---\n")}`);
    assert.equal(found.findings.length, 101);
    assert.equal(found.findings.at(-1)?.got, "these and 19 more");
    assert.equal(found.policies.length, 60);
  });

  test("long keys and names are cut", () => {
    const key = "k".repeat(900);
    const [line = ""] = judged(`circuit: {components: [{'${key}': 1}]}`).findings.map(findingLine);
    assert.ok(line.length > 500 && line.length < 1_500, String(line.length));
    const signal = `max: {in_ports: {inputs: [{signal_name: ${"s".repeat(100_000)}}]}}`;
    const [unread = ""] = judged(circuit(signal)).findings.map(findingLine);
    assert.ok(unread.length < 1_500, String(unread.length));
  });
});

describe("bounds hold for a text, not for each of its documents", () => {
  test("nodes, counting each use of an alias", () => {
    const bomb = `---\na0: &a0 [x]\n${list(6, (at) => `a${at + 1}: &a${at + 1} [${`*a${at},`.repeat(9)}]\n`)}`;
    const { findings, policies } = judged(bomb.repeat(500));
    assert.match(findings.map(findingLine).join("\n"), /wanted at most 200000 nodes/);
    assert.deepEqual([findings.length, policies.length], [1, 0]);
  });

  test("patterns, with their repetitions written out", () => {
    const good = [matching("^[0-9]{1,3}(\\.[0-9]{1,3}){3}$"), matching("^.{1,253}$")];
    assert.deepEqual(judged(meter(good.join(","))).findings, []);
    for (const selectors of [
      matching("a{1,1000}".repeat(12)),
      matching("(a{30}){30}".repeat(20)),
      matching("x".repeat(100_001)),
      Array.from({ length: 20 }, () => matching("a{1,1000}")).join(","),
    ]) {
      const lines = judged(meter(selectors)).findings.map(findingLine);
      assert.match(
        lines[0] ?? "",
        /regex: wanted patterns that are shorter, fewer, or repeat less/,
      );
    }
    const half = meter(Array.from({ length: 6 }, () => matching("a{1,1000}")).join(","));
    assert.deepEqual(judged(half).findings, []);
    assert.ok(
      judged(`${half}\n---\n${half}`).findings.some((each) => /repeat less/.test(each.wanted)),
    );
  });
});
