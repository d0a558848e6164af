import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { firstValue, sendable } from "#serve/grpc/metadata.ts";

/** What would be sent, or the code of the refusal. */
function sent(name: string, value: string): string {
  try {
    return sendable(name, value);
  } catch (thrown) {
    return Fault.from(thrown).code;
  }
}

const edges = fc.constantFrom(..."/0:9@AZ[`az{-._,~\x7f\x1f !\0é");

test("names are lower-case tokens, values printable ASCII without spaces at their ends", () => {
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

test("what the transport says, and what speaks of a connection, no handler says", () => {
  for (const name of [
    ...["grpc-status", "grpc-message", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout"],
    ...["content-type", "content-length", "te"],
    ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"],
  ]) {
    assert.equal(sent(name, "value"), "INTERNAL", name);
    assert.equal(sent(`x-${name}`, "value"), "value");
  }
});

test("binary values go out in padded base64, and come back from any form of it", () => {
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

test("values are found by whole names", () => {
  const fields = ["x", "1", "y", "", "x", "2", "2", "x"];
  assert.equal(firstValue(fields, "x"), "1");
  assert.equal(firstValue(fields, "y"), "");
  assert.equal(firstValue(fields, "2"), "x");
  assert.equal(firstValue(fields, "1"), undefined);
});
