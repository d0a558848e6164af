// Runs the h2spec conformance suite against Sluice's transport: every case of its groups generic, http2 and hpack,
// strict ones included, over cleartext and TLS. Its cases follow RFC 7540; a case on which RFC 9113 disagrees is
// listed here with the section.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { HttpReply, Route } from "#base/handler.ts";
import { h2spec } from "../../../deploy/tools/install.ts";
import { folderOf } from "../../kit/folder.ts";
import { child } from "../../kit/servers/child.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { dial, exchange, type Overrides, type TestPort, testPort } from "../../kit/sluice/port.ts";

/** Reasons why cases fail, and must fail, by case name. */
type Exceptions = Readonly<Record<string, string>>;

const CLEARTEXT: Exceptions = {
  "http2/3.5: Sends invalid connection preface":
    "§3.4 allows closing without GOAWAY where the peer does not speak HTTP/2. A port that also speaks HTTP/1.1 answers 400 before it closes, and the suite accepts no bytes before the close.",
};

interface Case {
  readonly name: string;
  /** Expected and actual result of a failed case. */
  readonly error: string | undefined;
}

/** A route with a body, which is answered only at the end of the request: most cases concern frames before that. */
function route(method: Route["method"]): Route {
  const handle = (): HttpReply => ({ status: 200, headers: {}, body: "judged" });
  return { method, path: "/", about: "judged", handle, body: "json" };
}

async function portWith(
  test: TestContext,
  settings: Overrides = {},
  routes: readonly Route[] = [route("GET"), route("POST")],
): Promise<TestPort> {
  return testPort(test, { settings: { grpc: { transport: "own" }, ...settings }, routes });
}

/** Runs the whole suite. */
async function runSuite(
  test: TestContext,
  { port }: TestPort,
  args: readonly string[],
): Promise<readonly Case[]> {
  const report = join(folderOf(test), "report.xml");
  const run = child(test, h2spec(), [
    "--port",
    String(port),
    "--strict",
    "--timeout",
    "2",
    "--junit-report",
    report,
    ...args,
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

/** Number of cases of the suite, which it prints only in a dry run. */
async function casesOfSuite(test: TestContext): Promise<number> {
  const run = child(test, h2spec(), ["--strict", "--dryrun"]);
  assert.equal(await run.ended, 0, run.err());
  return [...run.out().matchAll(/^\s*\d+: /gm)].length;
}

const failuresOf = (cases: readonly Case[]) => cases.filter(({ error }) => error !== undefined);

async function assertConforms(
  test: TestContext,
  cases: readonly Case[],
  exceptions: Exceptions,
): Promise<void> {
  const total = await casesOfSuite(test);
  assert.ok(total > 100, `the suite has only ${total} cases`);
  assert.equal(cases.length, total);
  const failed = failuresOf(cases);
  const unexpected = failed.filter(({ name }) => !(name in exceptions));
  const failures = unexpected.map(({ name, error }) => `${name}\n${error}`).join("\n\n");
  assert.equal(failures, "");
  // A case that passes now needs no exception.
  assert.deepEqual(
    failed.map(({ name }) => name),
    Object.keys(exceptions),
  );
}

test("passes h2spec over cleartext", async (t) => {
  await assertConforms(t, await runSuite(t, await portWith(t), []), CLEARTEXT);
});

test("passes h2spec's cases of messages where the reply comes before the body", async (t) => {
  const cases = await runSuite(t, await portWith(t, {}, []), ["http2/8"]);
  assert.ok(cases.length >= 18, `the suite has only ${cases.length} cases`);
  assert.deepEqual(failuresOf(cases), []);
});

test("passes h2spec over TLS", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile: cert_file, keyFile: key_file } = ca.issue("server");
  const port = await portWith(t, { tls: { enabled: true, cert_file, key_file } });
  await assertConforms(t, await runSuite(t, port, ["--tls", "--insecure"]), {});
});

test("answers an invalid HTTP/2 preface with an HTTP/1.1 400 and closes the connection", async (t) => {
  const reply = await exchange(dial(t, await portWith(t)), "INVALID CONNECTION PREFACE\r\n\r\n");
  assert.match(reply, /^HTTP\/1\.1 400 /);
});
