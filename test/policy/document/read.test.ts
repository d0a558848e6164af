import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { parse as parseYaml } from "yaml";
import { Report } from "#policy/document/finding.ts";
import { parse, readPolicies } from "#policy/document/read.ts";
import { formatPath, locate, plain } from "#policy/document/tree.ts";
import { rulesOf } from "../../kit/sluice/stored.ts";
import { compiled, lines } from "../kit.ts";

const names = (text: string, defaultName = "file"): string[] =>
  readPolicies(text, defaultName).documents.map(({ name }) => name);

const wrapped = (name: string, more = ""): string =>
  `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: ${name}}\nspec: {circuit: {}}\n${more}`;

describe("wrappers", () => {
  test("a bare policy has the name of its file, a Kubernetes object its own", () => {
    assert.deepEqual(names("circuit: {}"), ["file"]);
    assert.deepEqual(names(wrapped("inner")), ["inner"]);
    assert.deepEqual(names('{"circuit": {}}'), ["file"]);
  });

  test("an object without a name has that of its file, but not in a list", () => {
    const unnamed = "{apiVersion: fluxninja.com/v1alpha1, kind: Policy, spec: {circuit: {}}}";
    assert.deepEqual(names(unnamed), ["file"]);
    assert.deepEqual(names(unnamed.replace("spec", "metadata: {labels: {}}, spec")), ["file"]);
    const list = `{apiVersion: fluxninja.com/v1alpha1, kind: PolicyList, items: [${unnamed}]}`;
    assert.match(lines(list).join("\n"), /items\[0\]\.metadata\.name: wanted .* got nothing/);
  });

  test("several documents in one text, an empty last one, and a list of objects", () => {
    assert.deepEqual(names(`${wrapped("a")}---\n${wrapped("b")}---\n`), ["a", "b"]);
    const item = (name: string) =>
      `{apiVersion: fluxninja.com/v1alpha1, kind: Policy, metadata: {name: ${name}}, spec: {circuit: {}}}`;
    const list = `apiVersion: fluxninja.com/v1alpha1\nkind: PolicyList\nitems: [${item("a")}, ${item("b")}]`;
    assert.deepEqual(names(list), ["a", "b"]);
    const text = list.replace("{circuit: {}}", "{circuit: {nope: 1}}");
    assert.match(lines(text).join("\n"), /^p\.yaml:3:\d+: items\[0\]\.spec\.circuit\.nope: wanted/);
  });

  test("fields that a cluster adds to an object are accepted", () => {
    const more = "status: {status: uploaded}\ndynamicConfig: {a: 1}\n";
    assert.deepEqual(lines(wrapped("a", more)), []);
  });

  test("paths and positions refer to the text", () => {
    const text = wrapped("a").replace("{circuit: {}}", "{circuit: {evaluation_interval: soon}}");
    assert.match(lines(text)[0] ?? "", /^p\.yaml:4:39: spec\.circuit\.evaluation_interval: wanted/);
    const second = `${wrapped("a")}---\n${text}`;
    assert.match(lines(second)[0] ?? "", /^p\.yaml:9:39: spec\.circuit/);
  });

  test("a wrong apiVersion or kind is refused at its key", () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      [wrapped("a").replace("v1alpha1", "v1"), /apiVersion: wanted fluxninja\.com\/v1alpha1/],
      [wrapped("a").replace("Policy", "Pod"), /kind: wanted Policy, got "Pod"/],
      [wrapped("a/b"), /metadata\.name: wanted a policy name without `\/`/],
      [wrapped("''"), /metadata\.name: wanted/],
      [wrapped("5"), /metadata\.name: wanted .* as text, got the number 5/],
      [wrapped("a").replace("spec", "spce"), /spec: wanted a policy[\s\S]*spce: wanted one of/],
      [wrapped("a", "dynamicConfig: 3\n"), /dynamicConfig: wanted an object/],
      [wrapped("a").replace("{name: a}", "a"), /metadata: wanted an object, got "a"/],
    ];
    for (const [text, wanted] of cases) assert.match(lines(text).join("\n"), wanted);
    assert.match(lines("circuit: {}", "a/b").join(), /a policy name without/);
  });

  test("an object that leaves out apiVersion and kind is told so, and nothing else", () => {
    for (const text of ["metadata: {name: a}\nspec: {circuit: {}}\n", "spec: {circuit: {}}\n"]) {
      assert.deepEqual(lines(text), [
        "p.yaml:1:1: apiVersion: wanted fluxninja.com/v1alpha1, got nothing",
        "p.yaml:1:1: kind: wanted Policy, got nothing",
      ]);
    }
  });

  test("one bad document does not hide the others", () => {
    const all = lines(`${wrapped("a/b")}---\ncircuit: {nope: 1}\n---\n- 1\n`);
    assert.equal(all.length, 3, all.join("\n"));
  });
});

describe("text", () => {
  const values = (text: string): unknown => {
    const { documents, findings } = readPolicies(text, "x");
    assert.deepEqual(findings, []);
    return documents.map(({ tree }) => plain(tree))[0];
  };

  test("YAML 1.2: text and numbers in all their forms", () => {
    const text =
      "a: [yes, n, on, 2024-01-01, 0x10, 0o17, 017, 1_000, -1_0.5, '1_000', 1e3, true, ~]";
    const read = readPolicies(text, "x");
    assert.deepEqual(values(text), {
      a: ["yes", "n", "on", "2024-01-01", 16, 15, 15, 1000, -10.5, "1_000", 1000, true, null],
    });
    assert.match(read.warnings[0]?.text ?? "", /017 is read as octal, 15/);
  });

  test("JSON: tabs, escapes, and numbers beyond doubles keep their digits", () => {
    assert.deepEqual(values('{\n\t"a": "\\u00e9\\ud83d\\ude00\\/",\n\t"b": [1,\n\t2]\n}'), {
      a: "é😀/",
      b: [1, 2],
    });
    const [document] = readPolicies("{a: 9223372036854775807}", "x").documents;
    const tree = document?.tree;
    assert.ok(tree?.kind === "map");
    const value = tree.entries[0]?.value;
    assert.equal(value?.kind === "number" && value.source, "9223372036854775807");
  });

  test("aliases are replaced by their anchors", () => {
    assert.deepEqual(values("a: &x {b: 1}\nc: [*x, *x]"), { a: { b: 1 }, c: [{ b: 1 }, { b: 1 }] });
  });

  test("an alias refers to the latest anchor before it", () => {
    const text = "a: &x 1\nb: &y [*x]\nc: &x 2\nd: [*x, *y]\n? &k e\n: *k";
    assert.deepEqual(values(text), { a: 1, b: [1], c: 2, d: [2, [1]], e: "e" });
    assert.match(lines("a: 1\n---\nb: *x\n---\nc: &x 1").join("\n"), /b: wanted an anchor/);
    assert.match(lines("a: &x 1\n---\nb: *x").join("\n"), /b: wanted an anchor/);
  });

  test("aliases resolve as in the YAML library", () => {
    const node = fc.constantFrom("&x 1", "&y 2", "&x [*y]", "&y [*x]", "*x", "*y", "&x [3, *x2]");
    fc.assert(
      fc.property(fc.array(node, { maxLength: 8 }), (nodes) => {
        const text = ["&x 8", "&y 9", "&x2 7", ...nodes].map((each) => `- ${each}`).join("\n");
        const [root] = parse(text, new Report());
        assert.deepEqual(root && plain(root), parseYaml(text));
      }),
      { numRuns: 200 },
    );
  });

  test("digits in groups", () => {
    const meaning = /^[-+]?\d[\d_]*_[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
    const character = fc.constantFrom(..."0179__.eE+-x");
    fc.assert(
      fc.property(fc.string({ unit: character, minLength: 1, maxLength: 9 }), (text) => {
        const [root] = parse(`a: [${text}]`, new Report());
        const item = root?.kind === "map" ? root.entries[0]?.value : undefined;
        const [got] = item?.kind === "list" ? item.items : [];
        if (!text.includes("_")) return;
        assert.equal(got?.kind, meaning.test(text) ? "number" : "text", text);
      }),
      { numRuns: 2_000 },
    );
  });

  test("refused with line and column", () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ["circuit: {}\ncircuit: {}\n", /^p\.yaml:2:1: circuit: wanted each key once.*line 1/],
      [
        "a: b: c",
        /^p\.yaml:1:\d+: wanted well-formed YAML, got a syntax error: Nested mappings are not allowed/,
      ],
      ["circuit: {\n", /^p\.yaml:\d+:\d+: wanted well-formed YAML/],
      ["a: !!foo 1", /^p\.yaml:1:4: wanted well-formed YAML/],
      [
        "a: *none",
        /a: wanted an anchor that is defined earlier in the document, got the alias "none"/,
      ],
      ["%YAML 1.1\n---\ncircuit: {}\n", /wanted YAML 1\.2/],
      ["? {a: 1}\n: 2\n", /wanted a key that is a scalar/],
      ["", /wanted a policy, got no document/],
      ["# nothing but this\n", /wanted a policy, got no document/],
    ];
    for (const [text, wanted] of cases) assert.match(lines(text).join("\n"), wanted, text);
  });

  test("aliases cannot multiply, refer to themselves or nest without bound", () => {
    const levels = Array.from(
      { length: 12 },
      (_, at) => `l${at + 1}: &l${at + 1} [${"*l".concat(String(at), ", ").repeat(9)}]`,
    );
    const bomb = ["l0: &l0 [x]", ...levels].join("\n");
    for (const text of [
      bomb,
      "a: &x [*x]",
      `a: ${"[".repeat(5000)}`,
      `a: ${"[".repeat(5000)}${"]".repeat(5000)}`,
    ]) {
      const found = lines(text);
      assert.ok(found.length >= 1 && found.length < 10, `${found.length} lines`);
      assert.match(found.join("\n"), /wanted (?:at most|well-formed)/);
    }
  });

  test("nesting that is too deep for the parser is refused like any other, at its first level", () => {
    const nested = {
      "open lists": "[".repeat(3000),
      "closed lists": `${"[".repeat(3000)}${"]".repeat(3000)}`,
      "flow maps": "{a: ".repeat(3000),
      "keys of flow maps": "{? ".repeat(3000),
      "block lists": `${"- ".repeat(3000)}x`,
      "block keys": `${"? ".repeat(3000)}x`,
      "the second document": `circuit: {}\n---\n${"[".repeat(3000)}`,
      "one level more than allowed": `${"[".repeat(202)}${"]".repeat(202)}`,
    };
    for (const [what, text] of Object.entries(nested)) {
      const found = lines(text);
      assert.equal(found.length, 1, what);
      assert.match(found[0] ?? "", /wanted at most 200 levels, got deeper nesting$/, what);
    }
    assert.doesNotMatch(lines(`${"[".repeat(201)}${"]".repeat(201)}`).join(), /levels/);
  });

  test("a binary file is refused as one, at its first byte that is not text", () => {
    const elf = Buffer.from("7f454c4602010100ff00fe0003003e00d0231b00", "hex");
    const utf16 = Buffer.from("\uFEFFcircuit: {}", "utf16le");
    for (const bytes of [elf, utf16, Buffer.from([0xff, 0xfe])]) {
      const found = lines(bytes.toString("utf8"));
      assert.equal(found.length, 1, found.join("\n"));
      assert.match(found[0] ?? "", /:1:\d+: wanted UTF-8 text, got other bytes$/);
    }
    const latin1 = Buffer.from("# f\xfcr alle\ncircuit: {components: []}\n", "latin1");
    assert.deepEqual(names(latin1.toString("utf8")), ["file"], "a comment may have any bytes");
  });

  test("a text that is no policy is refused in one line that repeats nothing of it", () => {
    const shadow = "root:$6$salt$hash:19000:0:99999:7:::\nann:$y$hash:19000:0:99999:7:::\n";
    const foreign = [
      [
        shadow,
        /:1:1: wanted a policy, which has circuit or resources, .*without any of their keys$/,
      ],
      ["password: hash\nuser: ann\n", /:1:1: wanted a policy, /],
      [
        "-----BEGIN PRIVATE KEY-----\nhash\n",
        /:1:1: wanted an object at the top level, got a text$/,
      ],
      ["hash=1", /got a text$/],
      ["[hash]", /got a list$/],
      ["1234567", /got a number$/],
    ] as const;
    for (const [text, message] of foreign) {
      const found = lines(text);
      assert.equal(found.length, 1, text);
      assert.match(found[0] ?? "", message);
      assert.doesNotMatch(found.join(), /hash|ann\b|123/);
    }
    assert.match(
      lines("circut: {}").join(),
      /did you mean circuit\?, got the unknown key "circut"/,
    );
  });

  test("names of members of Object.prototype are ordinary keys", () => {
    assert.match(
      lines('{"__proto__": 1, "resources": {}}').join(),
      /__proto__: wanted a key of Policy/,
    );
    const policy = compiled(
      "resources: {flow_control: {flux_meters: {__proto__: {selectors: [{control_point: x, label_matcher: {match_labels: {__proto__: v}}}]}}}}",
    );
    const [rule] = rulesOf(policy);
    assert.equal(rule?.kind === "flux_meter" && rule.name, "__proto__");
    assert.deepEqual(Object.entries(rule?.selectors[0]?.matcher.labels ?? {}), [
      ["__proto__", "v"],
    ]);
  });
});

test("the position of an absent part is that of its nearest ancestor", () => {
  const [document] = readPolicies("a:\n  - b: 1\n    c: 2\n", "x").documents;
  assert.ok(document);
  const { root } = document;
  assert.deepEqual(locate(root, ["a", 0, "c"]), { line: 3, column: 5 });
  assert.deepEqual(locate(root, ["a", 0, "nope", "x"]), { line: 2, column: 5 });
  assert.deepEqual(locate(root, ["a", 7]), { line: 1, column: 1 });
  assert.equal(formatPath(document.path), "");
});

test("a key or value that is not well-formed Unicode is refused at its place", () => {
  const rule = (selector: string) =>
    `circuit:\n  evaluation_interval: 1s\n  components:\n    - flow_control:\n        rate_limiter:\n          selectors:\n            - ${selector}\n          in_ports: { bucket_capacity: { constant_signal: { value: 1 } }, fill_amount: { constant_signal: { value: 1 } } }\n          parameters: { interval: 1s }\n`;
  const at = "circuit.components[0].flow_control.rate_limiter.selectors[0]";
  const text = 'wanted text in well-formed Unicode, got "\\ud800"';
  const cases: readonly (readonly [string, string])[] = [
    ['{ control_point: "\\ud800" }', `p.yaml:7:32: ${at}.control_point: ${text}`],
    ['{ control_point: a, agent_group: "\\ud800" }', `p.yaml:7:48: ${at}.agent_group: ${text}`],
    [
      '{ control_point: a, label_matcher: { match_labels: { a: "\\ud800" } } }',
      `p.yaml:7:71: ${at}.label_matcher.match_labels.a: ${text}`,
    ],
    [
      '{ control_point: a, label_matcher: { match_labels: { "\\ud800": a } } }',
      `p.yaml:7:68: ${at}.label_matcher.match_labels: wanted a key in well-formed Unicode, got "\\ud800"`,
    ],
  ];
  for (const [selector, finding] of cases) assert.deepEqual(lines(rule(selector)), [finding]);
  assert.deepEqual(lines(rule('{ control_point: "\\ud83d\\ude00" }')), []);
});
