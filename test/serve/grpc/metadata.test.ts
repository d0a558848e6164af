import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { firstValue, sendable } from "#serve/grpc/metadata.ts";

/** The value that would be sent, or the code of the fault. */
function sent(name: string, value: string): string {
  try {
    return sendable(name, value);
  } catch (thrown) {
    return Fault.from(thrown).code;
  }
}

const edges = fc.constantFrom(..."/0:9@AZ[`az{-._,~\x7f\x1f !\0é");

test("accepts lower-case token names, and printable ASCII values without surrounding spaces", () => {
  fc.assert(
    fc.property(fc.string({ unit: edges, maxLength: 4 }), (text) => {
      const named = sent(text, "value");
      assert.equal(named, /^[0-9a-z_.-]+$/.test(text) ? "value" : "INTERNAL", text);
      const valued = sent("x-name", text);
      assert.equal(valued, /^[ -~]*$/.test(text) ? text.trim() : "INTERNAL", text);
    }),
    { numRuns: 2_000 },
  );
});

test("rejects names that belong to the transport or the connection", () => {
  for (const name of [
    "grpc-status",
    "grpc-message",
    "grpc-encoding",
    "grpc-accept-encoding",
    "grpc-timeout",
    "content-type",
    "content-length",
    "te",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
  ]) {
    assert.equal(sent(name, "value"), "INTERNAL", name);
    assert.equal(sent(`x-${name}`, "value"), "value");
  }
});

test("encodes binary values in padded base64 and decodes every variant of base64", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 9 }), (bytes) => {
      const padded = Buffer.from(bytes).toString("base64");
      const bare = padded.replaceAll("=", "");
      for (const form of [padded, bare]) {
        assert.equal(sent("x-bin", form), padded);
        assert.equal(firstValue(["x-bin", form], "x-bin"), padded);
        assert.equal(firstValue(["x-bin", `${form},Zm9v`], "x-bin"), padded);
      }
      assert.equal(sent("x-bin", `${padded}!`), "INTERNAL");
    }),
  );
});

test("looks values up by complete name only", () => {
  const fields = ["x", "1", "y", "", "x", "2", "2", "x"];
  assert.equal(firstValue(fields, "x"), "1");
  assert.equal(firstValue(fields, "y"), "");
  assert.equal(firstValue(fields, "2"), "x");
  assert.equal(firstValue(fields, "1"), undefined);
});
