import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Fault } from "#base/fault.ts";
import { compileClassifier } from "#flow/classify/classifier.ts";
import { RequestReader } from "#flow/classify/extract.ts";
import type { HttpAttributes } from "#flow/flow.ts";
import { ClassifierError } from "#flow/flow.ts";
import { LabelSlots, type LabelSource, Labels } from "#flow/label.ts";
import { labelRuleFaults } from "#flow/rule-faults.ts";
import type { AddressRule, ClassifierRule, ExtractorRule, LabelRule } from "#flow/rules.ts";
import { type Described, requestOf } from "../../kit/sluice/flow.ts";

const NO_LABELS: LabelSource = {
  get: () => undefined,
  origin: () => undefined,
  each: () => undefined,
};

function classifierOf(extractors: Readonly<Record<string, ExtractorRule>>): ClassifierRule {
  const rules = Object.entries(extractors).map(
    ([label, extractor]): LabelRule => ({ label, telemetry: true, unreadableValue: "", extractor }),
  );
  const identity = { policyName: "p", policyHash: "h", index: 3 } as const;
  return { kind: "classifier", ...identity, selectors: [], rules };
}

function run(rule: ClassifierRule, http: HttpAttributes) {
  const slots = new LabelSlots();
  const classifier = compileClassifier(rule, slots);
  const labels = new Labels(slots.schema, NO_LABELS);
  const info = classifier.run(new RequestReader(http), labels);
  const made = Object.fromEntries(
    [...labels.classifierLabels()].map(({ name, value }) => [name, value]),
  );
  return { classifier, info, made };
}

function addressOf(end: string, changed: Partial<Omit<AddressRule, "from">> = {}): ExtractorRule {
  const whole = { port: true, ipv4Prefix: 32, ipv6Prefix: 128 };
  return { kind: "address", from: end, ...whole, ...changed };
}

function from(path: string): ExtractorRule {
  return { kind: "from", from: path };
}

const EVERY_ATTRIBUTE = classifierOf({
  l_method: from("request.http.method"),
  l_path: from("request.http.path"),
  l_host: from("request.http.host"),
  l_scheme: from("request.http.scheme"),
  l_protocol: from("request.http.protocol"),
  l_body: from("request.http.body"),
  l_size: from("request.http.size"),
  l_id: from("request.http.id"),
  l_header: from("request.http.headers.x-api-user"),
  l_bearer: from("request.http.bearer"),
  l_meta: from("metadataContext.filterMetadata.envoy.filter"),
});

test("attributes of a full request", () => {
  const http = requestOf({
    method: "GET",
    path: "/a?b=c",
    host: "h.example",
    scheme: "http",
    protocol: "HTTP/1.1",
    body: "hello",
    size: 5,
    id: "42",
    headers: { "x-api-user": "ann", authorization: "Bearer tok123" },
  });
  assert.deepEqual(run(EVERY_ATTRIBUTE, http).made, {
    l_method: "GET",
    l_path: "-a?b=c",
    l_host: "h.example",
    l_scheme: "http",
    l_protocol: "HTTP-1.1",
    l_body: "hello",
    l_size: "5",
    l_id: "42",
    l_header: "ann",
    l_bearer: "tok123",
  });
});

test("empty attributes give empty labels; a missing id, size or header gives none", () => {
  const { made, info, classifier } = run(EVERY_ATTRIBUTE, requestOf({}));
  assert.deepEqual(made, {
    l_method: "",
    l_path: "",
    l_host: "",
    l_scheme: "",
    l_protocol: "",
    l_body: "",
  });
  assert.equal(info, classifier.info);
});

test("the bearer token is behind the scheme Bearer, in any case", () => {
  const bearer = classifierOf({ t: from("request.http.bearer") });
  const of = (authorization: string) => run(bearer, requestOf({ headers: { authorization } })).made;
  assert.deepEqual(of("Bearer "), { t: "" });
  assert.deepEqual(of("Bearer a b"), { t: "a-b" });
  for (const scheme of ["Bearer", "bearer", "BEARER", "bEARER", "Bearer  "]) {
    assert.deepEqual(of(`${scheme} tok`), { t: "tok" }, scheme);
  }
  for (const text of ["Basic abc", "Bearer", " Bearer x", "Bearerx tok", "Bearer\ttok"]) {
    assert.deepEqual(of(text), {}, text);
  }
});

test("a rule names a header in any case", () => {
  const rule = classifierOf({ user: from("request.http.headers.X-User") });
  assert.deepEqual(run(rule, requestOf({ headers: { "x-user": "ann" } })).made, { user: "ann" });
});

test("a value of the proxy's metadata is asked for by its names", () => {
  const rule = classifierOf({ tenant: from("metadataContext.filterMetadata.a.b.tenant") });
  const http = { ...requestOf({}), metadata: (names: string) => `<${names}>` };
  assert.deepEqual(run(rule, http).made, { tenant: "<a.b.tenant>" });
});

test("an address has one spelling, and may go without its port or be cut to its network", () => {
  const rule = classifierOf({
    whole: addressOf("source.address"),
    ip: addressOf("source.address", { port: false }),
    net: addressOf("source.address", { port: false, ipv4Prefix: 24, ipv6Prefix: 64 }),
    part: from("source.socketAddress.address"),
  });
  const of = (address: string) => run(rule, requestOf({ source: { address, port: 443 } })).made;
  assert.deepEqual(of("192.0.2.77"), {
    whole: "192.0.2.77:443",
    ip: "192.0.2.77",
    net: "192.0.2.0",
    part: "192.0.2.77",
  });
  assert.deepEqual(of("::ffff:192.0.2.77"), of("192.0.2.77"));
  const v6 = "2001:db8:1:2::ab";
  assert.deepEqual(of("2001:DB8:1:2:0:0:0:ab%eth0"), {
    whole: `[${v6}]:443`,
    ip: v6,
    net: "2001:db8:1:2::",
    part: v6,
  });
  assert.deepEqual(of(""), {});
  assert.deepEqual(of("gateway"), {
    whole: "gateway:443",
    ip: "gateway",
    net: "gateway",
    part: "gateway",
  });
});

test("addresses, in both spellings of their parts", () => {
  const rule = classifierOf({
    src: addressOf("source.address"),
    dst: addressOf("destination.address"),
    src_ip: from("source.address.socketAddress.address"),
    src_ip2: from("source.socketAddress.address"),
    src_port2: from("source.socketAddress.port"),
    src_port: from("source.address.socketAddress.portValue"),
    dst_ip: from("destination.socketAddress.address"),
    dst_port: from("destination.socketAddress.port"),
  });
  const http = requestOf({
    source: { address: "10.1.1.1", port: 1234 },
    destination: { address: "2001:db8::1", port: 80 },
  });
  assert.deepEqual(run(rule, http).made, {
    src: "10.1.1.1:1234",
    src_ip: "10.1.1.1",
    src_port: "1234",
    src_ip2: "10.1.1.1",
    src_port2: "1234",
    dst: "[2001:db8::1]:80",
    dst_ip: "2001:db8::1",
    dst_port: "80",
  });
  assert.deepEqual(run(rule, requestOf({})).made, {});
  assert.deepEqual(run(rule, requestOf({ source: { address: "", port: 0 } })).made, {});
});

test("pointers into a body and a header", () => {
  const json = (pointer: string, path = "request.http.body"): ExtractorRule => {
    return { kind: "json", from: path, pointer };
  };
  const rule = classifierOf({
    user: json("/user"),
    deep: json("/a/b/c"),
    second: json("/list/1/id"),
    whole: json(""),
    from_header: json("/k", "request.http.headers.x-json"),
  });
  const body = '{"user": 12345678901234567890, "a":{"b":{"c":true}}, "list":["x",{"id":1.50}]}';
  const http = requestOf({ body, headers: { "x-json": '{"k":"v w"}' } });
  assert.deepEqual(run(rule, http).made, {
    user: "12345678901234567000",
    deep: "true",
    second: "1.5",
    from_header: "v-w",
    whole: "{-user-:12345678901234567890--a-:{-b-:{-c-:true}}--list-:[-x--{-id-:1.50}]}",
  });
  assert.deepEqual(run(rule, requestOf({ body: "not json" })).made, {});
});

describe("fields of forms", () => {
  const FORM = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
  const form = (name: string, from = "request.http.body"): ExtractorRule => {
    return { kind: "form", from, name };
  };
  const field = (body: string, headers: Record<string, string> = FORM, name = "user") =>
    run(classifierOf({ v: form(name) }), requestOf({ body, headers }));

  for (const [body, value] of [
    ["user=ann", "ann"],
    ["a=1&user=ann&b=2", "ann"],
    ["a=user&user=ann", "ann"],
    ["%75ser=a%6En", "ann"],
    ["user=a=n", "a=n"],
    ["user", ""],
    ["user=", ""],
    ["&&user=ann&", "ann"],
    ["users=bob&user2=bob&use=bob", undefined],
    ["%zz=1&us%er=2&user%=3&%=4&user=ann", "ann"],
    ["", undefined],
  ] as const) {
    test(`of ${JSON.stringify(body)}`, () => {
      const { made, info } = field(body);
      assert.deepEqual(made, value === undefined ? {} : { v: value });
      assert.equal(info.unreadable, undefined);
    });
  }

  test("have names with blanks, in either way of writing them", () => {
    for (const body of ["user+name=ann", "user%20name=ann"])
      assert.deepEqual(field(body, FORM, "user name").made, { v: "ann" });
  });

  test("have names in UTF-8, in either way of writing them", () => {
    for (const body of ["größe=4", "gr%C3%B6%c3%9fe=4", "gr\u00f6%C3%9Fe=4"])
      assert.deepEqual(field(body, FORM, "größe").made, { v: "4" }, body);
    for (const body of ["gr%F6%DFe=4", "größ=4", "größe2=4", "😀=4"])
      assert.deepEqual(field(body, FORM, "größe").made, {}, body);
    assert.deepEqual(field("%F0%9F%98%80=4", FORM, "😀").made, { v: "4" });
  });

  test("are found in time that grows with the length of the body", () => {
    const spent = (body: string) => {
      const before = process.cpuUsage();
      for (let times = 0; times < 4; times++) field(body);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    for (const part of ["&", "%&", "%zzz&", "user&", "a=&"]) {
      const [short, long] = [2 ** 16, 2 ** 19].map((length) => part.repeat(length / part.length));
      spent(short ?? "");
      const ratios = Array.from({ length: 4 }, () => spent(long ?? "") / spent(short ?? ""));
      assert.ok(Math.min(...ratios) < 32, `${part}: eight times as long, ${ratios} times the work`);
    }
  });

  for (const [what, body, headers] of [
    ["are there twice", "user=ann&user=bob", FORM],
    ["are there twice, once behind a blank", "user=ann&+user=bob", FORM],
    ["are there twice, once before a NUL", "user=ann&user%00x=bob", FORM],
    ["are there twice, once as a list", "user=ann&user[]=bob", FORM],
    ["are a list, in encoded brackets", "user%5B%5d=bob", FORM],
    ["stand between semicolons", "x=1;user=ann", FORM],
    [
      "are in another charset",
      "user=ann",
      { "content-type": "application/x-www-form-urlencoded;charset=utf-16" },
    ],
    ["are compressed", "user=ann", { ...FORM, "content-encoding": "gzip" }],
    ["are there twice, once encoded", "user=ann&us%65r=bob", FORM],
    ["are not encoded as they should be", "user=%zz", FORM],
    ["are not UTF-8", "user=%ff", FORM],
    ["stand in JSON", '{"user":"ann"}', { "content-type": "application/json" }],
    ["stand in the parts of a form", "user=ann", { "content-type": "multipart/form-data" }],
    [
      "stand in text",
      "user=ann",
      { "content-type": "text/plain;application/x-www-form-urlencoded" },
    ],
  ] as const) {
    test(`cannot be read where they ${what}`, () => {
      const { made, info } = field(body, headers);
      assert.deepEqual(made, {});
      assert.equal(info.unreadable, "malformed");
    });
  }

  test("do not need a content type, and cannot be read in the beginning of a body", () => {
    assert.deepEqual(field("user=ann", {}).made, { v: "ann" });
    const cut = requestOf({ body: "user=ann", bodyCut: true, headers: FORM });
    assert.equal(run(classifierOf({ v: form("user") }), cut).info.unreadable, "body_cut");
  });

  test("of a query", () => {
    const of = (path: string) =>
      run(classifierOf({ v: form("user", "request.http.path") }), requestOf({ path }));
    assert.deepEqual(of("/a?user=ann&b=?").made, { v: "ann" });
    assert.deepEqual(of("/a?b=1#&user=bob").made, {});
    assert.deepEqual(of("/user=bob").made, {});
    assert.equal(of("/a?user=ann&user=bob").info.unreadable, "malformed");
  });

  test("of a header", () => {
    const http = requestOf({ headers: { "x-form": "user=ann" } });
    const rule = classifierOf({ v: form("user", "request.http.headers.x-form") });
    assert.deepEqual(run(rule, http).made, { v: "ann" });
  });
});

test("a document is read and parsed once, however many labels it provides", () => {
  let reads = 0;
  const http: HttpAttributes = {
    ...requestOf({}),
    get body() {
      reads++;
      return '{"a":1,"b":2}';
    },
  };
  const json = (pointer: string): ExtractorRule => {
    return { kind: "json", from: "request.http.body", pointer };
  };
  assert.deepEqual(run(classifierOf({ a: json("/a"), b: json("/b"), c: json("/c") }), http).made, {
    a: "1",
    b: "2",
  });
  assert.equal(reads, 1);
});

test("claims of a token, unverified", () => {
  const jwt = (pointer: string): ExtractorRule => {
    return { kind: "jwt", from: "request.http.bearer", pointer };
  };
  const rule = classifierOf({ sub: jwt("/sub"), role: jwt("/roles/0"), exp: jwt("/exp") });
  const payload = Buffer.from('{"sub":"ann ñ","roles":["admin"],"exp":1700000000}');
  const of = (token: string) =>
    run(rule, requestOf({ headers: { authorization: `Bearer ${token}` } })).made;
  const wanted = { sub: "ann-ñ", role: "admin", exp: "1700000000" };
  assert.deepEqual(of(`h.${payload.toString("base64url")}.s`), wanted);
  assert.deepEqual(of(`h.${payload.toString("base64url")}.`), wanted);
  for (const token of [
    "",
    "h",
    "h.p",
    "a.b.c.d",
    "h.!!!.s",
    `h.${payload.toString("base64url")}`,
  ]) {
    assert.deepEqual(of(token), {}, token);
  }
  assert.deepEqual(of(`h.${payload.toString("base64url")}.s.t`), {});
});

test("a payload that is not UTF-8 is ignored", () => {
  const rule = classifierOf({ all: { kind: "jwt", from: "request.http.host", pointer: "" } });
  const of = (...bytes: number[]) =>
    run(rule, requestOf({ host: `h.${Buffer.from(bytes).toString("base64url")}.s` })).made;
  assert.deepEqual(of(0x22, 0x61, 0x22), { all: "a" });
  assert.deepEqual(of(0x22, 0xff, 0x22), {});
});

test("the value of a path template becomes the label's value", () => {
  const templates = { "/users/{id}": "one user", "/*": "other" };
  const rule = classifierOf({ route: { kind: "path_templates", templates } });
  assert.deepEqual(run(rule, requestOf({ path: "/users/7?x=/" })).made, { route: "one-user" });
  assert.deepEqual(run(rule, requestOf({ path: "/" })).made, { route: "other" });
});

test("labels carry the telemetry flag of their rule, and their origin is the classifier", () => {
  const slots = new LabelSlots();
  const { rules, ...rest } = classifierOf({ shown: from("request.http.host") });
  const hidden: LabelRule = {
    label: "hidden",
    telemetry: false,
    unreadableValue: "",
    extractor: from("request.http.host"),
  };
  const classifier = compileClassifier({ ...rest, rules: [...rules, hidden] }, slots);
  const labels = new Labels(slots.schema, NO_LABELS);
  classifier.run(new RequestReader(requestOf({ host: "h" })), labels);
  assert.deepEqual(
    [...labels.classifierLabels()],
    [
      { name: "shown", value: "h", telemetry: true },
      { name: "hidden", value: "h", telemetry: false },
    ],
  );
  assert.equal(labels.origin(slots.of("hidden")), "classifier");
});

const BODY_USER = classifierOf({
  method: from("request.http.method"),
  user: { kind: "json", from: "request.http.body", pointer: "/user" },
});

/** The same rule with a value for what cannot be read. */
function withUnreadableValue(rule: ClassifierRule, unreadableValue: string): ClassifierRule {
  return { ...rule, rules: rule.rules.map((each) => ({ ...each, unreadableValue })) };
}

test("a value that cannot be read costs its own label only, and the report says why", () => {
  const cases: readonly [string, Described][] = [
    ["too_large", { body: `${"[".repeat(65)}${"]".repeat(65)}` }],
    ["too_large", { body: `${'{"v":'.repeat(5000)}1${"}".repeat(5000)}` }],
    ["too_large", { body: `"${"x".repeat(1 << 20)}"` }],
    ["malformed", { body: '{"user":"ann"' }],
    ["malformed", { body: "user=ann" }],
    ["body_cut", { body: '{"user":"ann"', bodyCut: true }],
    ["body_cut", { body: '{"user":"ann"}', bodyCut: true }],
    ["body_cut", { body: "", bodyCut: true }],
  ];
  for (const [reason, request] of cases) {
    const http = requestOf({ method: "POST", ...request });
    const { info, made, classifier } = run(BODY_USER, http);
    assert.deepEqual(made, { method: "POST" }, reason);
    assert.deepEqual(info, { ...classifier.info, unreadable: reason });
    const stated = run(withUnreadableValue(BODY_USER, "unreadable"), http);
    assert.deepEqual(stated.made, { method: "POST", user: "unreadable" });
    assert.equal(stated.info.unreadable, reason);
  }
});

test("a token or a whole body that cannot be read is reported, too", () => {
  const jwt = classifierOf({ t: { kind: "jwt", from: "request.http.bearer", pointer: "/sub" } });
  const token = requestOf({ headers: { authorization: "bearer no-token" } });
  assert.equal(run(jwt, token).info.unreadable, "malformed");
  assert.deepEqual(run(withUnreadableValue(jwt, "x"), token).made, { t: "x" });
  const whole = classifierOf({ b: from("request.http.body") });
  const cut = requestOf({ body: "abc", bodyCut: true });
  assert.equal(run(whole, cut).info.unreadable, "body_cut");
  assert.deepEqual(run(whole, cut).made, {});
});

test("what a request does not have is not unreadable", () => {
  const rule = withUnreadableValue(BODY_USER, "unreadable");
  for (const body of ["", "{}", '{"name":"ann"}', "[]"]) {
    const { info, made, classifier } = run(rule, requestOf({ method: "GET", body }));
    assert.deepEqual(made, { method: "GET" }, body);
    assert.equal(info, classifier.info);
  }
  const { made } = run(rule, requestOf({ body: '{"user":"ann"}' }));
  assert.equal(made["user"], "ann");
});

test("JSON behind a byte-order mark is read", () => {
  const http = requestOf({ method: "POST", body: '\ufeff{"user":"ann"}' });
  const { made, info, classifier } = run(BODY_USER, http);
  assert.deepEqual(made, { method: "POST", user: "ann" });
  assert.equal(info, classifier.info);
});

test("when an extractor throws, its classifier sets no label", () => {
  const http: HttpAttributes = {
    ...requestOf({ method: "GET" }),
    get body(): string {
      throw new Error("cannot be read");
    },
  };
  const { made, info } = run(BODY_USER, http);
  assert.deepEqual(made, {});
  assert.equal(info.error, ClassifierError.evalFailed);
});

test("a classifier with a part that is not run sets its labels and reports an error every time", () => {
  const rule = { ...classifierOf({ here: from("request.http.path") }), rego: ["score"] };
  const { info, made } = run(rule, requestOf({ path: "/a" }));
  assert.equal(info.error, ClassifierError.evalFailed);
  assert.deepEqual(made, { here: "-a" });
});

test("infos identify the classifier and stay the same objects", () => {
  const slots = new LabelSlots();
  const rule = classifierOf({ v: { kind: "json", from: "request.http.body", pointer: "" } });
  const classifier = compileClassifier(rule, slots);
  const runOver = (body: string) =>
    classifier.run(new RequestReader(requestOf({ body })), new Labels(slots.schema, NO_LABELS));
  const deep = `${"[".repeat(99)}${"]".repeat(99)}`;
  assert.deepEqual(classifier.info, {
    policyName: "p",
    policyHash: "h",
    classifierIndex: 3,
    error: ClassifierError.none,
    unreadable: undefined,
  });
  assert.equal(runOver("1"), classifier.info);
  assert.equal(runOver(deep).unreadable, "too_large");
  assert.equal(runOver(deep), runOver(deep));
});

test("a rule that does not compile is refused, and the message names the item", () => {
  const json = (pointer: string): ExtractorRule => {
    return { kind: "json", from: "request.http.body", pointer };
  };
  const shape = (template: string): ExtractorRule => {
    return { kind: "path_templates", templates: { [template]: "x" } };
  };
  const path = from("request.http.path");
  const cases: readonly [string, ExtractorRule, string][] = [
    ["a-b", path, '"a-b"'],
    ["a/b", path, '"a/b"'],
    ["1a", path, '"1a"'],
    ["", path, "rules"],
    ["default", path, '"default"'],
    ["a", from("request.http.hostname"), '"request.http.hostname"'],
    ["a", from("request.http.headers.x.y"), '"request.http.headers.x.y"'],
    ["a", from("request.http.headers."), '"request.http.headers."'],
    ["a", from("metadataContext.filterMetadata"), '"metadataContext.filterMetadata"'],
    ["a", from("metadataContext.filterMetadata.a..b"), '"metadataContext.filterMetadata.a..b"'],
    ["a", addressOf("source.address", { ipv4Prefix: 24 }), "port: false"],
    ["a", addressOf("source.address", { port: false, ipv4Prefix: 33 }), "ipv4_prefix"],
    ["a", addressOf("source.address", { port: false, ipv6Prefix: 0 }), "ipv6_prefix"],
    ["a", from("constructor"), '"constructor"'],
    ["a", from(""), '""'],
    ["a", addressOf("source"), '"source"'],
    ["a", json("user"), '"user"'],
    ["a", { kind: "form", from: "request.http.form", name: "user" }, '"request.http.form"'],
    ["a", json("/a~2"), '"/a~2"'],
    ["a", { kind: "jwt", from: "request.http.bearer", pointer: "sub" }, '"sub"'],
    ["a", { kind: "json", from: "request.http.nobody", pointer: "" }, '"request.http.nobody"'],
    ["a", shape("/*/static"), '"/*/static"'],
    ["a", shape("/a/*/b"), '"/a/*/b"'],
  ];
  for (const [label, extractor, named] of cases) {
    const rule: LabelRule = { label, telemetry: true, unreadableValue: "", extractor };
    const faults = labelRuleFaults(rule);
    assert.equal(faults.length, 1, named);
    assert.ok(faults[0]?.includes(named), `${faults[0]} names ${named}`);
    assert.throws(
      () => compileClassifier({ ...classifierOf({}), rules: [rule] }, new LabelSlots()),
      (thrown) =>
        thrown instanceof Fault &&
        thrown.code === "INVALID_ARGUMENT" &&
        thrown.message.includes(named),
    );
  }
  assert.deepEqual(
    labelRuleFaults({
      label: "_a1",
      telemetry: true,
      unreadableValue: "",
      extractor: json("/~0/01/~1"),
    }),
    [],
  );
});

test("all faults of a classifier are reported together", () => {
  const rule = classifierOf({
    "a-b": from("nothing"),
    ok: from("request.http.path"),
    c: from("?"),
  });
  assert.deepEqual(
    rule.rules.map((each) => labelRuleFaults(each).length),
    [2, 0, 1],
  );
  assert.throws(() => compileClassifier(rule, new LabelSlots()), /a-b.*nothing.*"c".*"\?"/);
});
