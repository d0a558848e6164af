// Differential test of the fast path's request parser: whatever it accepts, Node's parser reads the same way (method,
// target, fields, body and its end).

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { duplexPair } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { FastRequestReader } from "#serve/http/http1/fast-request.ts";

const MAX_HEAD = 1_000_000;
/** Most header fields. */
const FIELDS = 1_000;

interface Parsed {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The requests that Node's server finds in these bytes, up to the first malformed one. */
async function byNode(bytes: Buffer): Promise<{ found: Parsed[]; fault: boolean }> {
  const found: Parsed[] = [];
  const server = createServer((request, response) => {
    const { method = "", url = "", headers } = request;
    let body = "";
    request.setEncoding("latin1");
    request.on("error", () => undefined);
    request.on("data", (part: string) => {
      body += part;
    });
    request.on("end", () => {
      found.push({ method, target: url, headers, body });
      response.end();
    });
  });
  let fault = false;
  server.on("clientError", (_, socket) => {
    fault = true;
    socket.destroy();
  });
  const [mine, theirs] = duplexPair();
  mine.on("error", () => undefined);
  mine.resume();
  server.emit("connection", theirs);
  mine.end(bytes);
  // The end arrives after everything before it has been parsed.
  await once(theirs, "close");
  return { found, fault };
}

function readFastRequest(chunk: Buffer, maxHeadBytes = MAX_HEAD, maxFields = FIELDS) {
  return new FastRequestReader(maxHeadBytes, maxFields).read(chunk);
}

const request = (head: string, body = "{}") =>
  Buffer.from(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`, "latin1");
const USUAL = "POST /v1/check?x=1 HTTP/1.1\r\nhost: sluice\r\ncontent-type: application/json";

test("reads a typical request", () => {
  const chunk = request(`${USUAL}\r\nX-Long:  \tspaced out\t \r\nConnection: Keep-Alive\r\nempty:`);
  const read = readFastRequest(chunk);
  assert.ok(read !== undefined);
  assert.equal(read.target, "/v1/check?x=1");
  assert.deepEqual(
    { ...read.headers },
    {
      host: "sluice",
      "content-type": "application/json",
      "x-long": "spaced out",
      connection: "Keep-Alive",
      empty: "",
      "content-length": "2",
    },
  );
  assert.equal(read.chunk.toString("latin1", read.bodyStart), "{}");
});

/** Requests, valid or not, that the fast path must leave to Node's parser. */
const OTHERS: Readonly<Record<string, Buffer>> = {
  "another method": request(USUAL.replace("POST", "PUT")),
  "another version": request(USUAL.replace("1.1", "1.0")),
  "an absolute request target": request(USUAL.replace("/v1", "http://x/v1")),
  "a space in the target": request(USUAL.replace("?", " ")),
  "a tab after the target": request(USUAL.replace(" HTTP", "\tHTTP")),
  "non-ASCII characters in the target": request(USUAL.replace("?", "\xe9")),
  "non-ASCII characters in a value": request(`${USUAL}\r\nx: \xe9`),
  "a control character in a value": request(`${USUAL}\r\nx: a\x00b`),
  "a bare line feed in the head": request(`${USUAL}\nx: y`),
  "a bare carriage return in a value": request(`${USUAL}\r\nx: a\rb`),
  "a folded line": request(`${USUAL}\r\nx: a\r\n b`),
  "a space before the colon": request(`${USUAL}\r\nx : y`),
  "a line without a colon": request(`${USUAL}\r\nxy`),
  "a field without a name": request(`${USUAL}\r\n: y`),
  "a name with an underscore": request(`${USUAL}\r\n__proto__: y`),
  "no host": request("POST / HTTP/1.1\r\nx: y"),
  "a field twice": request(`${USUAL}\r\nHost: b`),
  "content-length twice": request(`${USUAL}\r\ncontent-length: 2`),
  "no length": Buffer.from(`${USUAL}\r\n\r\n`),
  "a content-length longer than the body": Buffer.from(`${USUAL}\r\ncontent-length: 3\r\n\r\n{}`),
  "a content-length shorter than the body": Buffer.from(`${USUAL}\r\ncontent-length: 1\r\n\r\n{}`),
  "a content-length with a sign": Buffer.from(`${USUAL}\r\ncontent-length: +2\r\n\r\n{}`),
  "a content-length with a decimal point": Buffer.from(`${USUAL}\r\ncontent-length: 2.0\r\n\r\n{}`),
  "a hexadecimal content-length": Buffer.from(`${USUAL}\r\ncontent-length: 0x2\r\n\r\n{}`),
  "an empty content-length": Buffer.from(`${USUAL}\r\ncontent-length:\r\n\r\n`),
  "a content-length with leading zeros": Buffer.from(
    `${USUAL}\r\ncontent-length: 000002\r\n\r\n{}`,
  ),
  chunks: request(`${USUAL}\r\ntransfer-encoding: chunked`),
  trailers: request(`${USUAL}\r\ntrailer: x`),
  te: request(`${USUAL}\r\nte: trailers`),
  "another protocol": request(`${USUAL}\r\nupgrade: websocket`),
  "HTTP/2 wanted": request(`${USUAL}\r\nhttp2-settings: x`),
  "expect: 100-continue": request(`${USUAL}\r\nexpect: 100-continue`),
  "connection: close": request(`${USUAL}\r\nconnection: close`),
  "further connection options": request(`${USUAL}\r\nconnection: keep-alive, x`),
  "a keep-alive field": request(`${USUAL}\r\nkeep-alive: timeout=1`),
  "a proxy-connection field": request(`${USUAL}\r\nproxy-connection: keep-alive`),
  "two requests": Buffer.concat([request(USUAL), request(USUAL)]),
  nothing: Buffer.alloc(0),
};
for (const [what, chunk] of Object.entries(OTHERS)) {
  test(`leaves to Node's parser: ${what}`, () => assert.equal(readFastRequest(chunk), undefined));
}

test("never takes part of a request for a request", () => {
  const whole = request(USUAL, '{"a":"\\r\\n\\r\\n"}');
  for (let end = 0; end < whole.length; end++) {
    assert.equal(readFastRequest(whole.subarray(0, end)), undefined, `${end} bytes`);
  }
  assert.ok(readFastRequest(whole) !== undefined);
});

test("leaves a head with too many fields to Node's parser", () => {
  const chunk = request(USUAL);
  assert.ok(readFastRequest(chunk, MAX_HEAD, 3) !== undefined);
  assert.equal(readFastRequest(chunk, MAX_HEAD, 2), undefined);
});

test("leaves a long head to Node's parser", () => {
  const chunk = request(USUAL);
  const head = chunk.length - 2;
  assert.ok(readFastRequest(chunk, head, FIELDS) !== undefined);
  assert.equal(readFastRequest(chunk, head - 1, FIELDS), undefined);
  const padded = (size: number) => request(`${USUAL}\r\nx: ${"y".repeat(size)}`);
  assert.ok(readFastRequest(padded(3_000)) !== undefined);
  assert.equal(readFastRequest(padded(4_096)), undefined);
});

const piece = fc.constantFrom(
  ..."\r\n|\n|\r| |\t|:|: |,|;|a|B|0|1|-|_|\xe9|\x00|\x7f|host: y\r\n|HTTP/1.1|POST /|/|?|#|%".split(
    "|",
  ),
  "content-length: 0\r\n",
  "content-length: 2\r\n",
  "Transfer-Encoding: chunked\r\n",
  "x: y\r\n",
  "connection: close\r\n",
  "connection: keep-alive\r\n",
  "2\r\n{}\r\n0\r\n\r\n",
);
const fields = fc.array(
  fc.tuple(
    fc.constantFrom("accept", "Accept", "X-Id", "x-id", "cookie", "user-agent", "Connection", "te"),
    fc.constantFrom("*/*", "a b", "", "keep-alive", " padded ", "a,b", "a:b"),
  ),
  { maxLength: 4 },
);
const body = fc.string({ maxLength: 20 });
const mutated = fc
  .tuple(fields, body, fc.array(fc.tuple(fc.nat(), fc.nat(3), piece), { maxLength: 2 }))
  .map(([fields, body, edits]) => {
    const lines = fields.map(([name, value]) => `\r\n${name}: ${value}`).join("");
    let text = request(`${USUAL}${lines}`, Buffer.from(body).toString("latin1")).toString("latin1");
    for (const [place, cut, put] of edits) {
      const at = place % (text.length + 1);
      text = text.slice(0, at) + put + text.slice(at + cut);
    }
    return Buffer.from(text, "latin1");
  });

test("does not take a target or a host for that of the request before", () => {
  const reader = new FastRequestReader(MAX_HEAD, FIELDS);
  for (const [target, host] of [
    ["/a", "one"],
    ["/a", "one"],
    ["/b", "two"],
    ["/ab", "onetwo"],
    ["/a", "on"],
    ["/", ""],
  ] as const) {
    const read = reader.read(request(`POST ${target} HTTP/1.1\r\nhost: ${host}`));
    assert.equal(read?.target, target);
    assert.equal(read?.headers["host"], host);
  }
  assert.equal(reader.read(request("POST / HTTP/1.1\r\nhost: a b")), undefined);
  assert.equal(reader.read(request("POST / HTTP/1.1\r\nhost: a b")), undefined);
});

test("makes no strings of fields that nobody asks for", () => {
  const chunk = request(`${USUAL}\r\nGRPC-Timeout: \t1S `);
  let strings = 0;
  const make = chunk.toString;
  chunk.toString = (...given) => {
    strings++;
    return make.apply(chunk, given);
  };
  const reader = new FastRequestReader(MAX_HEAD, FIELDS);
  reader.read(chunk);
  strings = 0;
  const read = reader.read(chunk);
  assert.equal(read?.timeout, "1S");
  assert.equal(strings, 1, "the timeout");
  assert.equal(read?.headers["grpc-timeout"], "1S");
});

test("Node's parser finds the same request and nothing after it", async () => {
  let read = 0;
  const reader = new FastRequestReader(MAX_HEAD, FIELDS);
  await fc.assert(
    fc.asyncProperty(mutated, async (bytes) => {
      const plain = reader.read(bytes);
      if (plain === undefined) return;
      read++;
      const { found, fault } = await byNode(bytes);
      assert.equal(fault, false, "Node refuses a request that the fast path accepted");
      assert.equal(found.length, 1);
      const { target, headers, bodyStart } = plain;
      assert.deepEqual(found[0], {
        method: "POST",
        target,
        headers: { ...headers },
        body: bytes.toString("latin1", bodyStart),
      });
    }),
    { numRuns: 3_000 },
  );
  assert.ok(read > 300, `only ${read} requests took the fast path`);
});
