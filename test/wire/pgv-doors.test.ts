// The rules that the CheckHTTP door checks by hand are those that the proto states.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { checkHttpBinary } from "#api/check-http.ts";
import type { Door } from "#api/door.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#serve/handler.ts";
import { HeaderNames } from "#wire/headers.ts";
import { compileRules } from "#wire/pgv.ts";
import {
  CheckHTTPRequestSchema,
  type SocketAddress_Protocol,
} from "../../src/wire/gen/aperture/flowcontrol/checkhttp/v1/checkhttp_pb.ts";

/** The field that the door refuses; `control_point` when it gets past the rules, since none is given. */
function refusedField(message: Uint8Array): string {
  // Nothing else of a door and a call is asked for before the control point is.
  const door = { names: new HeaderNames(() => 0.5) } as unknown as Door;
  try {
    void checkHttpBinary(door)(message, {} as unknown as Call);
  } catch (thrown) {
    assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT", String(thrown));
    return /^(?:source|destination)\.\w+/.exec(thrown.message)?.[0] ?? "control_point";
  }
  return assert.fail("want a refusal");
}

test("the door and the proto refuse the same sockets", () => {
  const violations = compileRules(CheckHTTPRequestSchema);
  const socket = fc.option(
    fc.record({
      address: fc.constantFrom("", "a", "::1"),
      port: fc.constantFrom(0, 80, 65535, 65536, 2 ** 32 - 1),
      protocol: fc.constantFrom(0, 1, 2, -1).map((n) => n as SocketAddress_Protocol),
    }),
    { nil: undefined },
  );
  const seen = new Set<string>();
  fc.assert(
    fc.property(socket, socket, (source, destination) => {
      const init: MessageInitShape<typeof CheckHTTPRequestSchema> = {
        ...(source && { source }),
        ...(destination && { destination }),
      };
      const message = create(CheckHTTPRequestSchema, init);
      const wanted = violations(message).map(({ field }) => field);
      const refused = refusedField(toBinary(CheckHTTPRequestSchema, message));
      seen.add(refused);
      if (refused === "control_point") assert.deepEqual(wanted, []);
      else assert.ok(wanted.includes(refused), `${refused} of ${wanted}`);
    }),
    { numRuns: 500 },
  );
  assert.equal(seen.size, 7);
});
