// The requests that the bench sends, and assertions about their replies. Both use the general protobuf library,
// not the codecs under test.

import assert from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { KEY_PLACE, type OpenConnection } from "./connection.ts";
import { http1Connections } from "./http1.ts";
import { getConnections, grpcConnections } from "./http2.ts";
import { CHECK_PATH, JSON_PATH } from "./paths.ts";

const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const AuthResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");
const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

export const CONTROL_POINT = "ingress";
const KEY_LABEL = "http.request.header.user_id";

/** Headers of a browser's request behind a proxy: thirteen, the proxy's pseudo headers among them. */
const HEADERS = {
  ":authority": "shop.example.com",
  ":method": "GET",
  ":path": "/api/v1/products/4711?view=full",
  ":scheme": "https",
  accept: "application/json, text/plain, */*",
  "accept-encoding": "gzip, deflate, br",
  "accept-language": "en-GB,en;q=0.9",
  "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
  cookie: "session=2f1c9e0b7d",
  "user-id": `user-${KEY_PLACE}`,
  "x-forwarded-for": "203.0.113.7",
  "x-forwarded-proto": "https",
  "x-request-id": "5f6d0a52-6d5d-4f3c-9a43-1c2f64c1f0de",
};

const peer = (address: string, port: number) => ({
  address: {
    address: {
      case: "socketAddress" as const,
      value: { address, portSpecifier: { case: "portValue" as const, value: port } },
    },
  },
});

/** What clients may add to a request to make its check costly: as many members of baggage as are accepted. */
const BAGGAGE = {
  baggage: Array.from({ length: 180 }, (_, at) => `member${at}=v`).join(","),
};

/** An ext_authz check as a proxy sends it, about 780 bytes without `more` headers. */
const authMessage = (more: Readonly<Record<string, string>> = {}) =>
  Buffer.from(
    toBinary(
      CheckRequestSchema,
      create(CheckRequestSchema, {
        attributes: {
          source: peer("203.0.113.7", 41_212),
          destination: peer("10.1.2.3", 8_443),
          request: {
            time: { seconds: 1_790_000_000n, nanos: 123_456_000 },
            http: {
              id: "12876514422135897423",
              method: "GET",
              path: HEADERS[":path"],
              host: HEADERS[":authority"],
              scheme: "https",
              protocol: "HTTP/1.1",
              size: -1n,
              headers: { ...HEADERS, ...more },
            },
          },
        },
      }),
    ),
  );
export const AUTH_MESSAGE = authMessage();

/** The same request as JSON. */
function jsonMessage(more: Readonly<Record<string, string>> = {}): Buffer {
  return Buffer.from(
    JSON.stringify({
      source: { address: "203.0.113.7", protocol: "TCP", port: 41_212 },
      destination: { address: "10.1.2.3", protocol: "TCP", port: 8_443 },
      control_point: CONTROL_POINT,
      request: {
        method: "GET",
        path: HEADERS[":path"],
        host: HEADERS[":authority"],
        scheme: "https",
        protocol: "HTTP/1.1",
        size: -1,
        headers: { ...HEADERS, ...more },
      },
    }),
  );
}

const authOf = (message: Buffer): OpenConnection =>
  grpcConnections({ path: CHECK_PATH, metadata: { "control-point": CONTROL_POINT }, message });
export const authConnections = authOf(AUTH_MESSAGE);
export const baggageConnections = authOf(authMessage(BAGGAGE));
export const JSON_MESSAGE = jsonMessage();
export const jsonConnections: OpenConnection = http1Connections(JSON_PATH, JSON_MESSAGE);
export const jsonBaggageConnections = http1Connections(JSON_PATH, jsonMessage(BAGGAGE));

/** The browser's request itself, for the figures through a real proxy. */
export const browserConnections: OpenConnection = getConnections(
  HEADERS[":path"],
  HEADERS[":authority"],
  Object.fromEntries(Object.entries(HEADERS).filter(([name]) => !name.startsWith(":"))),
);
/** The proxy's reply to a request that passes. */
export const PASSED = "passed\n";

/** Asserts that the reply accepts, and that its metadata names the one limiter and its key. */
export function judgeAuthReply(bytes: Buffer): void {
  judgeDecisions(bytes, 1);
}

/** The same for a check that ten limiters match. */
export function judgeTenDecisions(bytes: Buffer): void {
  judgeDecisions(bytes, 10);
}

function judgeDecisions(bytes: Buffer, count: number): void {
  const reply = fromBinary(AuthResponseSchema, bytes);
  assert.equal(reply.httpResponse.case, "okResponse");
  const text = reply.dynamicMetadata?.["aperture.check_response"];
  assert.ok(typeof text === "string");
  const check = fromBinary(CheckResponseSchema, Buffer.from(text, "base64"));
  assert.equal(check.controlPoint, CONTROL_POINT);
  assert.ok(check.flowLabelKeys.includes(KEY_LABEL));
  assert.equal(check.limiterDecisions.length, count);
  for (const { details, dropped } of check.limiterDecisions) {
    assert.ok(details.case === "rateLimiterInfo" && !dropped);
    assert.match(details.value.label, /^http\.request\.header\.user_id:user-\d{8}$/);
  }
}

export function judgeBrowserReply(bytes: Buffer): void {
  assert.equal(bytes.toString(), PASSED);
}

export function judgeJsonReply(bytes: Buffer): void {
  const reply = JSON.parse(bytes.toString());
  assert.ok(reply.ok_response);
  const [decision, ...more] = reply.check_response.limiter_decisions;
  assert.equal(more.length, 0);
  assert.equal(decision.dropped, false);
  assert.match(decision.rate_limiter_info.label, /^http\.request\.header\.user_id:user-\d{8}$/);
  assert.ok(reply.dynamic_metadata["aperture.check_response"].length > 0);
}
