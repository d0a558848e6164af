import assert from "node:assert/strict";
import { test } from "node:test";
import {
  joinHostPort,
  namedServer,
  splitHostPort,
  urlOfServer,
  whyNotBound,
  withoutBrackets,
} from "#base/net/host-port.ts";

test("why nothing listens at an address", () => {
  const error = (code: string) => Object.assign(new Error(`bind ${code} a:1`), { code });
  assert.equal(
    whyNotBound("a:1", error("EADDRINUSE")),
    "the address is in use (a:1); stop the process that listens there, or choose another address",
  );
  assert.equal(
    whyNotBound("a:1", error("EADDRNOTAVAIL")),
    "this machine does not have the address (a:1)",
  );
  assert.equal(whyNotBound("a:1", error("EACCES")), "EACCES (a:1)");
  assert.equal(whyNotBound("a:1", new Error("no socket")), "no socket (a:1)");
});

test("host and port", () => {
  for (const [text, host, port] of [
    ["a:1", "a", "1"],
    [":8080", "", "8080"],
    ["a", "a", ""],
    ["", "", ""],
    ["[::1]:80", "::1", "80"],
    ["[::1]", "::1", ""],
    ["[fe80::1%eth0]:80", "fe80::1%eth0", "80"],
    // As the gRPC library writes an IPv6 peer.
    ["::1:4000", "::1", "4000"],
  ] as const)
    assert.deepEqual(splitHostPort(text), { host, port }, text);
  assert.equal(joinHostPort("a", 1), "a:1");
  assert.equal(joinHostPort("", "1"), ":1");
  assert.equal(joinHostPort("fe80::1%eth0", 1), "[fe80::1%eth0]:1");
  assert.equal(withoutBrackets("[::1]"), "::1");
  assert.equal(withoutBrackets("a"), "a");
});

test("servers as settings name them", () => {
  for (const [text, scheme, host, port] of [
    ["host", undefined, "host", ""],
    ["host:2379", undefined, "host", "2379"],
    ["http://host:80/", "http", "host", "80"],
    ["HTTPS://host:443", "https", "host", "443"],
    ["https://host", "https", "host", ""],
    ["[::1]:1", undefined, "::1", "1"],
    ["https://[::1]", "https", "::1", ""],
    ["http://host:80/path:1", "http", "host", "80"],
  ] as const)
    assert.deepEqual(namedServer(text), { scheme, host, port }, text);
});

test("servers as people name them", () => {
  assert.equal(urlOfServer("a:1", "http")?.href, "http://a:1/");
  assert.equal(urlOfServer(":8080", "https")?.href, "https://127.0.0.1:8080/");
  assert.equal(urlOfServer("HTTPS://a", "http")?.href, "https://a/");
  assert.equal(urlOfServer("a b", "http"), undefined);
});
