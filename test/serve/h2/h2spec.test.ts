// The conformance suite of HTTP/2 against the own transport: every case of its groups generic, http2 and hpack,
// strict ones too, over cleartext and TLS. Its cases follow RFC 7540; where RFC 9113 says otherwise, the case is
// listed here with the section.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { HttpReply, Route } from "#serve/handler.ts";
import { child } from "../../kit/child.ts";
import { folderOf } from "../../kit/folder.ts";
import { dial, exchange, type Overrides, type TestPort, testPort } from "../../kit/port.ts";
import { authority, temporaryFolder } from "../../kit/tls.ts";
import { h2spec } from "../../tools/install.ts";

/** Case to why it fails and must fail. */
type Exceptions = Readonly<Record<string, string>>;

const CLEARTEXT: Exceptions = {
  "http2/3.5: Sends invalid connection preface":
    "§3.4 lets the GOAWAY away where the peer does not speak HTTP/2, and wants the connection closed. A port that speaks HTTP/1.1 too answers 400 as that before it closes, and the suite takes no bytes before the close.",
};

interface Case {
  readonly name: string;
  /** What was wanted and what was got, where that was not the same. */
  readonly error: string | undefined;
}

/** A request is answered when it is whole: most cases are about frames that come before its end. */
function route(method: Route["method"]): Route {
  const handle = (): HttpReply => ({ status: 200, headers: {}, body: "judged" });
  return { method, path: "/", about: "judged", handle, body: "json" };
}

async function portWith(test: TestContext, settings: Overrides = {}): Promise<TestPort> {
  return testPort(test, {
    settings: { grpc: { transport: "own" }, ...settings },
    routes: [route("GET"), route("POST")],
  });
}

/** Runs the whole suite. */
async function judge(
  test: TestContext,
  { port }: TestPort,
  args: readonly string[],
): Promise<readonly Case[]> {
  const report = join(folderOf(test), "report.xml");
  const run = child(test, h2spec(), [
    ...["--port", String(port), "--strict", "--timeout", "2", "--junit-report", report, ...args],
  ]);
  await run.ended;
  const xml = readFileSync(report, "utf8");
  const cases = xml.matchAll(
    /<testcase package="(.*?)" classname="(.*?)" time=".*?">(?:\s*<(?:error|failure|skipped)[^>]*>([^<]*)<)?/g,
  );
  return [...cases].map(([, section, title, error]) => ({
    name: unescaped(`${section}: ${title}`),
    error: error === undefined ? undefined : unescaped(error),
  }));
}

const ENTITIES: Readonly<Record<string, string>> = {
  quot: '"',
  "#34": '"',
  "#39": "'",
  lt: "<",
  gt: ">",
  amp: "&",
  "#xA": "\n",
};
const unescaped = (text: string) => text.replace(/&(.*?);/g, (all, name) => ENTITIES[name] ?? all);

/** How many cases the suite has; it only tells when it is asked for their titles. */
async function casesOfSuite(test: TestContext): Promise<number> {
  const run = child(test, h2spec(), ["--strict", "--dryrun"]);
  assert.equal(await run.ended, 0, run.err());
  return [...run.out().matchAll(/^\s*\d+: /gm)].length;
}

async function assertConforms(
  test: TestContext,
  cases: readonly Case[],
  exceptions: Exceptions,
): Promise<void> {
  const whole = await casesOfSuite(test);
  assert.ok(whole > 100, `the suite has ${whole} cases`);
  assert.equal(cases.length, whole);
  const failed = cases.filter(({ error }) => error !== undefined);
  const unexpected = failed.filter(({ name }) => !(name in exceptions));
  const told = unexpected.map(({ name, error }) => `${name}\n${error}`).join("\n\n");
  assert.equal(told, "");
  // One that passes by now needs no exception.
  assert.deepEqual(
    failed.map(({ name }) => name),
    Object.keys(exceptions),
  );
}

test("h2spec, cleartext", async (t) => {
  await assertConforms(t, await judge(t, await portWith(t), []), CLEARTEXT);
});

test("h2spec, TLS", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile: cert_file, keyFile: key_file } = ca.issue("server");
  const port = await portWith(t, { tls: { enabled: true, cert_file, key_file } });
  await assertConforms(t, await judge(t, port, ["--tls", "--insecure"]), {});
});

test("what is no preface of HTTP/2 is answered as HTTP/1.1 and its connection closed", async (t) => {
  const reply = await exchange(dial(t, await portWith(t)), "INVALID CONNECTION PREFACE\r\n\r\n");
  assert.match(reply, /^HTTP\/1\.1 400 /);
});
