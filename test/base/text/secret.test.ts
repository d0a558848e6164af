import assert from "node:assert/strict";
import { test } from "node:test";
import { isCredential, mayBeSecret } from "#base/text/secret.ts";

test("names of credentials, in any spelling", () => {
  const names = [
    "authorization",
    "Proxy-Authorization",
    "cookie",
    "Set-Cookie",
    "x-api-key",
    "apiKey",
    "agent_api_key",
    "password",
    "passwd",
    "secret",
    "client_secret",
    "dsn",
    "access_token",
    "x-forwarded-access-token",
  ];
  for (const name of names) assert.ok(isCredential(name) && mayBeSecret(name), name);
  for (const name of ["token_path", "session_label_key", "tokens", "cookies", "user", "", "key"])
    assert.ok(!isCredential(name), name);
  assert.ok(!isCredential(`${"x".repeat(40)}secret`));
});

test("more names of labels are suspected", () => {
  for (const name of ["user_session_id", "http.request.header.x_token", "jwt", "pass_phrase:"])
    assert.ok(mayBeSecret(name), name);
  for (const name of ["user", "http.request.header.x_user", "endpoint", ""])
    assert.ok(!mayBeSecret(name), name);
});
