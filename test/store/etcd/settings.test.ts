import assert from "node:assert/strict";
import { test } from "node:test";
import { endpointsOf } from "#store/etcd/settings.ts";

const TLS = {
  ca_file: "",
  cert_file: "",
  key_file: "",
  insecure_skip_verify: false,
  key_log_file: "",
};

function addressesOf(
  endpoints: readonly string[],
  tls: Partial<typeof TLS> = {},
): readonly string[] {
  const settings = { lease_ttl: 1, log_level: "", namespace: "", username: "", password: "" };
  const found = endpointsOf({ ...settings, endpoints, tls: { ...TLS, ...tls } } as Parameters<
    typeof endpointsOf
  >[0]);
  return found.map((each) => `${each.tls ? "https" : "http"} ${each.address}`);
}

test("an address has the port of etcd unless it names another, also the usual one of its scheme", () => {
  for (const [text, wanted] of [
    ["host", "http host:2379"],
    ["host:1", "http host:1"],
    ["host:80", "http host:80"],
    ["http://host", "http host:2379"],
    ["http://host:80/", "http host:80"],
    ["https://host", "https host:2379"],
    ["https://host:443", "https host:443"],
    ["https://[::1]:2380", "https [::1]:2380"],
    ["[::1]", "http [::1]:2379"],
  ] as const)
    assert.deepEqual(addressesOf([text]), [wanted], text);
});

test("each setting of TLS makes addresses without a scheme those of TLS, and refuses http", () => {
  for (const tls of [{ ca_file: "f" }, { cert_file: "f" }, { insecure_skip_verify: true }]) {
    assert.deepEqual(addressesOf(["host"], tls), ["https host:2379"]);
    assert.throws(
      () => addressesOf(["http://host"], tls),
      /wanted https:\/\/.* got http:\/\/host:2379/,
    );
  }
});

test("servers count once, and there has to be one", () => {
  assert.deepEqual(addressesOf(["a", "http://a:2379", "b", "https://a"]), [
    "http a:2379",
    "http b:2379",
    "https a:2379",
  ]);
  assert.throws(() => addressesOf([]), /got none/);
});
