// The rules that the CheckHTTP endpoint checks by hand are those in its proto file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { checkHttpBinary } from "#api/check-http.ts";
import type { OperationContext } from "#api/context.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { violationsOf } from "#wire/protobuf/validation.ts";
import { assertTwice } from "../../kit/properties/twice.ts";

const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");

/** The field that the endpoint refuses; `control_point`, which is missing, when no rule was broken before. */
function refusedField(message: Uint8Array): string {
  // The casts: nothing else of the context and the call is read before the control point.
  const context = { names: new HeaderNames(() => 0.5) } as unknown as OperationContext;
  try {
    void checkHttpBinary(context)(message, {} as unknown as Call);
  } catch (thrown) {
    assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT", String(thrown));
    return /^(?:source|destination)\.\w+/.exec(thrown.message)?.[0] ?? "control_point";
  }
  return assert.fail("want a refusal");
}

test("the hand-written checks and the proto refuse the same sockets", () => {
  const socket = fc.option(
    fc.record({
      address: fc.constantFrom("", "a", "::1"),
      port: fc.constantFrom(0, 80, 65535, 65536, 2 ** 32 - 1),
      protocol: fc.constantFrom(0, 1, 2, -1),
    }),
    { nil: undefined },
  );
  const seen = new Set<string>();
  assertTwice(
    fc.property(socket, socket, (source, destination) => {
      const init: MessageInitShape<typeof CheckHTTPRequestSchema> = {
        ...(source && { source }),
        ...(destination && { destination }),
      };
      const message = create(CheckHTTPRequestSchema, init);
      const wanted = violationsOf(CheckHTTPRequestSchema, message).map(({ field }) => field);
      const refused = refusedField(toBinary(CheckHTTPRequestSchema, message));
      seen.add(refused);
      if (refused === "control_point") assert.deepEqual(wanted, []);
      else assert.ok(wanted.includes(refused), `${refused} of ${wanted}`);
    }),
    500,
  );
  assert.equal(seen.size, 7);
});
