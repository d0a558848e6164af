// Pages in a real Chromium try to change and to read policies of a Sluice that the browser's machine can reach. Each
// request reaches the port, as the counters show, and changes nothing.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, createServer as createRelay, type Server } from "node:net";
import { type TestContext, test } from "node:test";
import { openPage, REBOUND } from "../kit/clients/chromium.ts";
import { call } from "../kit/sluice/check.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const EMPTY = "circuit: { components: [] }";
const BODY = JSON.stringify({ policy_string: EMPTY });

/** The start of each page: `attempt` reports what the page saw of a request, or the error of the browser. */
const PRELUDE = `
const body = ${JSON.stringify(BODY)};
const bytes = new TextEncoder().encode(body);
const seen = {};
async function attempt(name, run) {
  try { const reply = await run(); seen[name] = [reply.type, reply.status, await reply.text()]; }
  catch (error) { seen[name] = [String(error)]; }
}
`;

/** From a page of another port: everything that needs no permission of the other side. */
const crossOrigin = (target: string): string => `
const to = (name) => "${target}/v1/policies/" + name;
const post = (name, body, headers = {}) =>
  attempt(name, () => fetch(to(name), { method: "POST", mode: "no-cors", body, headers }));
await post("bytes", bytes);
await post("text", body);
await post("blob", new Blob([bytes]));
await post("json-blob", new Blob([bytes], { type: "application/json" }));
await post("json-header", body, { "content-type": "application/json" });
await attempt("asked", () => fetch(to("asked"), { method: "POST", body, headers: { "content-type": "application/json" } }));
await attempt("read", () => fetch("${target}/v1/policies"));
navigator.sendBeacon(to("beacon"), bytes);
const frame = document.createElement("iframe");
frame.name = "answer";
document.body.append(frame);
const form = document.createElement("form");
form.method = "POST"; form.enctype = "text/plain"; form.target = "answer"; form.action = to("form");
const field = document.createElement("input");
field.name = '{"policy_string":"circuit: { components: [] }","x":"'; field.value = '"}';
form.append(field);
document.body.append(form);
const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
form.submit();
await loaded;
`;

/** From a page whose host name has been rebound to Sluice: the same origin, so that the browser stops nothing. */
const sameOrigin = `
const headers = { "content-type": "application/json" };
await attempt("written", () => fetch("/v1/policies/written", { method: "POST", body, headers }));
await attempt("bytes", () => fetch("/v1/policies/bytes", { method: "POST", body: bytes }));
await attempt("removed", () => fetch("/v1/policies/victim", { method: "DELETE" }));
await attempt("read", () => fetch("/v1/policies"));
await attempt("profile", () => fetch("/debug/pprof/cmdline"));
await attempt("status", () => fetch("/v1/status"));
`;

type Seen = Readonly<Record<string, readonly unknown[]>>;

interface Attacker {
  /** On 127.0.0.1. */
  readonly port: number;
  /** The report of the page. */
  readonly report: Promise<Seen>;
}

/** Serves `/page`, which runs the script and reports to `/report`. */
async function attacker(t: TestContext, script: string): Promise<Attacker> {
  const { promise: report, resolve } = Promise.withResolvers<Seen>();
  let port = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    // The connection closes with the reply, so the whole report must be read before it.
    if (request.url === "/report") resolve(JSON.parse(await textOf(request)));
    const html = `<!doctype html><body><script type="module">${PRELUDE}${script}
      await fetch("http://127.0.0.1:${port}/report",
        { method: "POST", mode: "no-cors", body: JSON.stringify(seen) });</script>`;
    // The next request of a page that is rebound must open another connection.
    response.writeHead(200, { "content-type": "text/html", connection: "close" });
    response.end(request.url === "/page" ? html : "");
  };
  const server = createServer((request, response) => void answer(request, response));
  port = await listening(t, server);
  return { port, report };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += part;
  return text;
}

async function listening(t: TestContext, server: Server): Promise<number> {
  t.after(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const bound = server.address();
  assert.ok(bound !== null && typeof bound === "object");
  return bound.port;
}

/**
 * DNS rebinding as a browser sees it: connections to one name and port lead to the attacker for the page, and to Sluice
 * afterwards. Bytes are passed on as they are.
 */
function rebinding(t: TestContext, page: number, target: number): Promise<number> {
  const relay = createRelay((incoming) => {
    incoming.on("error", () => incoming.destroy());
    incoming.once("data", (first: Buffer) => {
      const toPage = first.toString("latin1", 0, 16).startsWith("GET /page ");
      const outgoing = connect(toPage ? page : target, "127.0.0.1");
      outgoing.on("error", () => incoming.destroy());
      incoming.on("close", () => outgoing.destroy());
      outgoing.write(first);
      incoming.pipe(outgoing).pipe(incoming);
    });
  });
  return listening(t, relay);
}

async function victim(t: TestContext, env: Readonly<Record<string, string>> = {}) {
  const sluice = await standalone(t, { policies: {}, env });
  const legitimate = await call(sluice.address, "POST", "/v1/policies/victim", {
    policy_string: EMPTY,
  });
  assert.equal(legitimate.status, 200, legitimate.body);
  const names = async () => {
    const { body } = await call(sluice.address, "GET", "/v1/policies");
    return Object.keys(JSON.parse(body).policies.policies);
  };
  /** Requests for policies so far, by method and status, except those of this test itself. */
  const requests = async () => {
    const { body } = await call(sluice.address, "GET", "/metrics");
    const rows =
      /^http_requests_total\{(?=.*handler_name="\/v1\/policies)(?=.*http_status_code="(\d+)")(?=.*http_method="(\w+)").*\} (\d+)$/gm;
    const counts: Record<string, number> = {};
    for (const [, status, method, count] of body.matchAll(rows)) {
      const name = `${method} ${status}`;
      counts[name] = (counts[name] ?? 0) + Number(count);
    }
    counts["POST 200"] = (counts["POST 200"] ?? 0) - 1;
    return counts;
  };
  return { ...sluice, names, requests };
}

/** On loopback, browsers tell the site of a page; to hosts that they do not trust, they only tell its origin. */
const neighbours: readonly (readonly [what: string, host: string, env: Record<string, string>])[] =
  [
    ["on loopback", "127.0.0.1", {}],
    [
      "on a host of Sluice's own",
      REBOUND,
      { SVC_AGENT_SERVER_ADMINISTRATION_ALLOWED_HOSTS: `[${REBOUND}]` },
    ],
  ];
for (const [what, host, env] of neighbours) {
  test(`a page of another port ${what} cannot change or read policies`, (t) =>
    attackFrom(t, host, env));
}

async function attackFrom(t: TestContext, host: string, env: Readonly<Record<string, string>>) {
  const { port: target, names, requests } = await victim(t, env);
  const { port, report } = await attacker(t, crossOrigin(`http://${host}:${portOf(target)}`));
  openPage(t, `http://${host}:${port}/page`);
  const seen = await report;
  assert.deepEqual(Object.keys(seen).sort(), [
    "asked",
    "blob",
    "bytes",
    "json-blob",
    "json-header",
    "read",
    "text",
  ]);
  // The browser shows the page nothing of the replies, whatever they are.
  for (const [name, [type, status]] of Object.entries(seen))
    assert.ok(status === 0 || /TypeError/.test(String(type)), name);
  // bytes, text, blob, json-header (which becomes text), beacon and form.
  const posts = async () =>
    Object.entries(await requests()).reduce(
      (sum, [name, count]) => sum + (name.startsWith("POST ") ? count : 0),
      0,
    );
  await until("the attempts have reached the port", async () => (await posts()) >= 6);
  const { "POST 403": refused = 0, "POST 200": written } = await requests();
  assert.deepEqual(await names(), ["victim"]);
  assert.ok(refused >= 6);
  assert.equal(written, 0);
}

const portOf = ({ address }: { readonly address: string }): number =>
  Number(address.slice(address.lastIndexOf(":") + 1));

test("a page whose name was rebound to the port cannot change or read policies", async (t) => {
  const { port, names, requests } = await victim(t);
  const page = await attacker(t, sameOrigin);
  const relay = await rebinding(t, page.port, portOf(port));
  openPage(t, `http://${REBOUND}:${relay}/page`);
  const seen = await page.report;
  for (const [name, [type, status, body]] of Object.entries(seen)) {
    assert.deepEqual([type, status], ["basic", 403], `${name} ${body}`);
    assert.match(String(body), /administration is not served under this host name/);
  }
  assert.deepEqual(Object.keys(seen).length, 6);
  assert.deepEqual(await requests(), {
    "POST 403": 2,
    "DELETE 403": 1,
    "GET 403": 1,
    "POST 200": 0,
  });
  assert.deepEqual(await names(), ["victim"]);
});
