// The JSON check operation behind gateways whose plugins forward the header section of their own clients, and let a
// request pass on any answer but 200: no client may switch limiting off by what it sends.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { forwardTo } from "#api/gateway.ts";
import { GrpcClient } from "#client/grpc.ts";
import { agentOf, common, endpointsOf, forwardedRoutes } from "../kit/api/agent.ts";
import { realClock, testPort } from "../kit/sluice/port.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const CHECK = "/v1/flowcontrol/checkhttp";
const CONTROL = { control_point: "here" } as const;

/** A port whose policy grants one request in all, or one for each value of a label. */
async function portBehindGateway(
  t: TestContext,
  how: "judged" | "forwarded" = "judged",
  limitByLabelKey: string = "",
) {
  const agent = agentOf([
    [
      {
        ...common,
        kind: "rate_limiter",
        componentId: "root.0",
        limitByLabelKey,
        tokensLabelKey: "",
        intervalMs: 1_000_000,
        continuousFill: false,
        delayInitialFill: false,
        maxIdleMs: 0,
        lazySyncs: 0,
      },
      {
        kind: "rate_limiter",
        policyName: "p",
        policyHash: "h1",
        componentId: "root.0",
        bucketCapacity: 1,
        fillAmount: 1,
        passThrough: false,
      },
    ],
  ]);
  const { routes, services } = endpointsOf(agent.flowController);
  const judging = await testPort(t, { routes, services });
  if (how === "judged") return { agent, port: judging.port };
  const client = new GrpcClient({ address: judging.address });
  t.after(() => client.close());
  const forwarding = forwardedRoutes(forwardTo(client, realClock), agent.flowController);
  const { port } = await testPort(t, { routes: forwarding });
  return { agent, port };
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Sends bytes as they are and reads one reply. */
function exchange(port: number, request: string | Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(request));
    let text = "";
    socket.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const [head = "", body = ""] = text.split(/\r\n\r\n(.*)/s);
      const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
      if (length === undefined || Buffer.byteLength(body) < Number(length)) return;
      socket.destroy();
      const fields = head
        .split("\r\n")
        .slice(1)
        .map((line) => line.toLowerCase().split(": "));
      resolve({ status: Number(head.slice(9, 12)), headers: Object.fromEntries(fields), body });
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`closed without a reply: ${text}`)));
  });
}

/** Sends bytes as they are and reads until the server closes the connection. */
async function everything(port: number, request: string): Promise<string> {
  const socket = connect(port, "127.0.0.1", () => socket.write(request));
  let text = "";
  for await (const chunk of socket.setEncoding("utf8")) text += chunk;
  return text;
}

/** Each character of the body is one byte. */
function postedBytes(body: string, path = CHECK): Buffer {
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.from(head + body, "latin1");
}

function posted(headers: readonly string[], body: string, host = "gateway", path = CHECK): string {
  const length = `content-length: ${Buffer.byteLength(body)}`;
  const head = [`POST ${path} HTTP/1.1`, `host: ${host}`, length, ...headers];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

const plain = JSON.stringify({ ...CONTROL, request: { method: "GET", path: "/" } });

async function deniedStatus({ status, body }: Pick<Answer, "status" | "body">): Promise<number> {
  assert.equal(status, 200, body);
  const { check_response: check, denied_response: denied } = JSON.parse(body);
  assert.equal(check.decision_type, "DECISION_TYPE_REJECTED");
  return denied.status;
}

test("no forwarded header keeps a check from being judged", async (t) => {
  const { port, agent } = await portBehindGateway(t);
  assert.equal((await exchange(port, posted([], plain))).status, 200);
  const forwarded: readonly (readonly string[])[] = [
    ["content-encoding: gzip"],
    ["content-encoding: identity"],
    ["content-type: text/plain"],
    ["content-type: multipart/form-data; boundary=x"],
    ["content-type: application/grpc"],
    ["origin: https://evil.example", "sec-fetch-site: cross-site", "sec-fetch-mode: no-cors"],
    ["grpc-timeout: 1n"],
    ["grpc-timeout: 0m"],
    ["grpc-timeout: soon"],
    ["expect: 200-maybe"],
    ["te: trailers", "trailer: x"],
    ["connection: upgrade", "upgrade: websocket"],
    ["connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__"],
    ["range: bytes=0-1", "if-none-match: *"],
    ["accept: text/html", "accept-encoding: br"],
    [`cookie: ${"c".repeat(30_000)}`],
  ];
  for (const headers of forwarded) {
    const answer = await exchange(port, posted(headers, plain));
    assert.equal(await deniedStatus(answer), 429, headers.join());
  }
  for (const host of ["evil.example", "a@b", "169.254.169.254", "[::1]:80"]) {
    assert.equal(await deniedStatus(await exchange(port, posted([], plain, host))), 429, host);
  }
  assert.equal(agent.observer.verdicts.length, 1 + forwarded.length + 4);
});

for (const how of ["judged", "forwarded"] as const) {
  test(`a body that is compressed or in another charset is said to be that where checks are ${how}`, (t) =>
    explainsUnreadable(t, how));
}

async function explainsUnreadable(t: TestContext, how: "judged" | "forwarded"): Promise<void> {
  const { port } = await portBehindGateway(t, how);
  const sent = async (headers: readonly string[], body: Buffer, path = CHECK) => {
    const lines = [
      `POST ${path} HTTP/1.1`,
      "host: x",
      `content-length: ${body.length}`,
      ...headers,
    ];
    return exchange(port, Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body]));
  };
  const gzip = gzipSync(plain);
  const wide = Buffer.from(plain, "utf16le");
  const json = "content-type: application/json; charset=";
  for (const path of [CHECK, "/v1/flowcontrol/check", "/v1/flowcontrol/flowend"]) {
    const compressed = await sent(["content-encoding: gzip-evil"], gzip, path);
    assert.equal(compressed.status, 415);
    assert.match(compressed.body, /wanted JSON that is not compressed, got a body that is/);
    assert.doesNotMatch(compressed.body, /evil/);
    const recoded = await sent([`${json}utf-16-evil`], wide, path);
    assert.equal(recoded.status, 415);
    assert.match(recoded.body, /wanted JSON in UTF-8, got a body in the other charset/);
    assert.doesNotMatch(recoded.body, /evil/);
  }
  // Nothing is claimed where the headers do not say it, and headers alone are no fault.
  for (const headers of [[], ["content-encoding: identity"], [`${json}utf-8`], [`${json}"UTF8"`]]) {
    const unread = await sent(headers, gzip);
    assert.equal(unread.status, 400);
    assert.match(unread.body, /not valid JSON/);
  }
  const latin = await sent([`${json}iso-8859-1`], Buffer.from(plain));
  assert.equal(latin.status, 200);
  const missing = await sent(["content-encoding: gzip"], Buffer.from("{}"));
  assert.deepEqual(
    [missing.status, JSON.parse(missing.body).message],
    [400, "missing control-point"],
  );
}

test("more forwarded headers than the port takes are a refused decision", async (t) => {
  const { port, agent } = await portBehindGateway(t);
  const many = Array.from({ length: 1_001 }, (_, at) => `a${at}:`);
  for (const path of [CHECK, "/v1/flowcontrol/check"]) {
    const { status, body } = await exchange(port, posted(many, plain, "gateway", path));
    assert.equal(status, 200, body);
    const reply = JSON.parse(body);
    const { decision_type, denied_response_status_code } = reply.check_response ?? reply;
    assert.equal(decision_type, "DECISION_TYPE_REJECTED");
    assert.equal(denied_response_status_code, "RequestHeaderFieldsTooLarge");
  }
  assert.equal(agent.observer.verdicts.length, 2);
  assert.equal(
    (await exchange(port, posted(many, "{}", "x", "/v1/flowcontrol/flowend"))).status,
    431,
  );
});

test("a chunked body is read", async (t) => {
  const { port } = await portBehindGateway(t);
  const half = plain.length >> 1;
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
  const head = `POST ${CHECK} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n`;
  const request = head + chunk(plain.slice(0, half)) + chunk(plain.slice(half)) + chunk("");
  assert.equal((await exchange(port, request)).status, 200);
  assert.equal(await deniedStatus(await exchange(port, request)), 429);
});

for (const how of ["judged", "forwarded"] as const) {
  test(`faults that the end user controls are refused decisions: ${how}`, async (t) => {
    const { port, agent } = await portBehindGateway(t, how);
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`h${at}`, ""]));
    const cases: readonly [number, RegExp, object][] = [
      [
        431,
        /^the request has more headers than server\.http\.max_headers allows$/,
        { headers: many },
      ],
      [400, /^the value of a header contains NUL, CR or LF$/, { headers: { cookie: "a\u0000b" } }],
      [400, /^the value of a header/, { headers: { cookie: ["a", "b\r\nx: y"] } }],
      [400, /^the name of a header contains a control char/, { headers: { "a\u0001b": "" } }],
      [400, /^the name of a header/, { headers: { "a\u007f": "" } }],
      [400, /^the method contains a control character$/, { method: "GE\u0009T" }],
      [400, /^the method/, { method: "GET\u007f" }],
      [400, /^the path contains NUL, CR, LF or %00$/, { path: "/a%00b" }],
      [400, /^the path/, { path: "/a\nb" }],
      [400, /^the host contains NUL, CR or LF$/, { host: "a\nb" }],
      [413, /longer than server\.http\.max_body_bytes allows$/, { body: "x".repeat(1 << 20) }],
    ];
    for (const [wanted, why, request] of cases) {
      const answer = await exchange(port, posted([], JSON.stringify({ ...CONTROL, request })));
      assert.equal(await deniedStatus(answer), wanted);
      assert.match(JSON.parse(answer.body).status.message, why);
    }
    const rejected = agent.observer.verdicts.map(({ accepted }) => accepted);
    assert.deepEqual(
      rejected,
      cases.map(() => false),
      "each counts as a refusal",
    );
    assert.equal(
      agent.observer.anomalies.filter((what) => what === "request_refused").length,
      cases.length,
    );
    // None of them took the only token.
    const { body } = await exchange(port, posted([], plain));
    assert.equal(JSON.parse(body).check_response.decision_type, "DECISION_TYPE_ACCEPTED");
  });

  test(`too many labels of a flow, and too long ones, are refused decisions: ${how}`, async (t) => {
    const { port, agent } = await portBehindGateway(t, how);
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`l${at}`, ""]));
    const cases: readonly [RegExp, object][] = [
      [/^the flow has more labels than server\.http\.max_labels allows$/, many],
      [/longer than server\.http\.max_body_bytes allows$/, { l: "x".repeat(1 << 20) }],
    ];
    for (const [why, labels] of cases) {
      const body = JSON.stringify({ ...CONTROL, labels });
      const answer = await exchange(port, posted([], body, "sdk", "/v1/flowcontrol/check"));
      assert.equal(answer.status, 200, answer.body);
      const check = JSON.parse(answer.body);
      assert.equal(check.decision_type, "DECISION_TYPE_REJECTED");
      assert.equal(check.denied_response_status_code, "PayloadTooLarge");
      assert.match(answer.headers["x-sluice-refusal"] ?? "", why);
    }
    assert.deepEqual(
      agent.observer.anomalies,
      cases.map(() => "request_refused"),
    );
  });

  test(`text that is not Unicode and sizes that are no number are judged: ${how}`, async (t) => {
    const { port } = await portBehindGateway(t, how);
    assert.equal((await exchange(port, posted([], plain))).status, 200);
    const requests = [
      ...['"\xff"', '"\xc0\x80"', '"\\ud800"', '"\xed\xa0\x80"'].flatMap((text) => [
        `"path":${text}`,
        `"host":${text}`,
        `"body":${text}`,
        `"headers":{"x":${text}}`,
        `"headers":{${text}:"x"}`,
      ]),
      '"headers":{"\xff":"1","\xfe":"2"}',
      ...['"007"', '" 5 "', '""', '"5, 5"'].map((text) => `"size":${text}`),
    ];
    for (const request of requests) {
      const body = `{"control_point":"here","request":{${request}}}`;
      const answer = await exchange(port, postedBytes(body));
      assert.equal(await deniedStatus(answer), 429, request);
    }
  });

  test(`header values that are not UTF-8 have limits of their own: ${how}`, async (t) => {
    const { port } = await portBehindGateway(t, how, "http.request.header.x_user");
    for (const user of ["u\xff", "u\xfe", "u\xc3\xa9\xff", "u\xc3\xa9\xfe", "u\xc3\xa9"]) {
      const body = `{"control_point":"here","request":{"headers":{"x-user":"${user}"}}}`;
      const decisions: string[] = [];
      for (let times = 0; times < 2; times++) {
        const answer = await exchange(port, postedBytes(body));
        decisions.push(JSON.parse(answer.body).check_response.decision_type);
      }
      assert.deepEqual(decisions, ["DECISION_TYPE_ACCEPTED", "DECISION_TYPE_REJECTED"], user);
    }
  });

  test(`a body that is too large without an announced length is refused, too: ${how}`, async (t) => {
    const { port } = await portBehindGateway(t, how);
    const part = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const head = `POST ${CHECK} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n`;
    const answer = await exchange(port, `${head}${part.repeat(17)}0\r\n\r\n`);
    assert.equal(await deniedStatus(answer), 413);
  });

  test(`a body that is not framed as its header section says is refused: ${how}`, async (t) => {
    const { port, agent } = await portBehindGateway(t, how);
    const framings = ["chunked", "Chunked", "gzip, chunked"];
    for (const framing of framings) {
      const head = `POST ${CHECK} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: ${framing}\r\n\r\n`;
      // The bytes that follow must never be taken for a request.
      const text = await everything(port, `${head}${plain}GET / HTTP/1.1\r\nhost: x\r\n\r\n`);
      assert.equal(text.split("HTTP/1.1 ").length - 1, 1, text);
      const [, body = ""] = text.split("\r\n\r\n");
      assert.equal(await deniedStatus({ status: Number(text.slice(9, 12)), body }), 400);
      assert.match(text, /\r\nconnection: close\r\n/i);
    }
    assert.equal(agent.observer.verdicts.length, framings.length);
  });
}

test("a body that does not arrive in time is refused as late, and its connection ends", async (t) => {
  const env = { SVC_AGENT_SERVER_HTTP_READ_TIMEOUT: "0.2s" };
  const { address } = await standalone(t, { policies: {}, env });
  const head = `POST ${CHECK} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n`;
  const text = await everything(Number(address.split(":").at(-1)), `${head}{`);
  const [, body = ""] = text.split("\r\n\r\n");
  assert.equal(await deniedStatus({ status: Number(text.slice(9, 12)), body }), 408);
  assert.match(body, /the body did not arrive within server\.http\.read_timeout/);
  assert.match(text, /\r\nconnection: close\r\n/i);
});

test("faults of the caller's own message are errors", async (t) => {
  const { port } = await portBehindGateway(t);
  const bodies = [
    "{",
    "[]",
    "user=ann",
    JSON.stringify({ request: {} }),
    JSON.stringify({ ...CONTROL, request: { path: 5 } }),
    JSON.stringify({ ...CONTROL, source: { address: "10.0.0.1", protocol: "SCTP" } }),
    JSON.stringify({ ...CONTROL, source: { address: "10.0.0.1", protocol: 7 } }),
  ];
  for (const body of bodies) {
    const { status } = await exchange(port, posted([], body));
    assert.equal(status, 400, body);
  }
  for (const path of [CHECK, "/v1/flowcontrol/check"]) {
    for (const name of ["", " ", "in ", " in", "in\n", "i\u007fn", "x".repeat(1_025)]) {
      const body = JSON.stringify({ control_point: name, request: {} });
      const answer = await exchange(port, posted([], body, "gateway", path));
      assert.equal(answer.status, 400, `${path} ${name}`);
      assert.match(answer.body, name === "" ? /missing control-point/ : /at most 1024 characters/);
    }
    for (const name of ["in side", "x".repeat(1_024), "/", "é"]) {
      const body = JSON.stringify({ control_point: name, request: {} });
      assert.equal((await exchange(port, posted([], body, "gateway", path))).status, 200, name);
    }
  }
  const empty = { ...CONTROL, source: { address: "10.0.0.1", port: "", protocol: "" } };
  assert.equal((await exchange(port, posted([], JSON.stringify(empty)))).status, 200);
});

test("a control point that is not Unicode is an error, and bytes of the client beside one that is are not", async (t) => {
  const { port } = await portBehindGateway(t);
  const about = '"request":{"path":"/","headers":{"user":"ann"}},"labels":{}';
  const client = about.replace("ann", "\xff");
  const names = ["here\xff", "\xc3", "here\\ud800", "\xff\\ud800", "h\xc3\xa9\xff", "\xef\xbf\xbd"];
  for (const path of [CHECK, "/v1/flowcontrol/check"]) {
    for (const rest of [about, client]) {
      for (const name of names) {
        const body = `{"control_point":"${name}",${rest}}`;
        const answer = await exchange(port, postedBytes(body, path));
        assert.equal(answer.status, 400, `${path} ${JSON.stringify(body)}`);
        assert.match(answer.body, /control_point must have .*only Unicode/);
      }
      const body = `{"control_point":"h\xc3\xa9",${rest}}`;
      const { status } = await exchange(port, postedBytes(body, path));
      assert.equal(status, 200, `${path} ${JSON.stringify(body)}`);
    }
  }
});
